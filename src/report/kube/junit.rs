//! What became of manifests, as `JUnit` XML: a suite for each file, a case for each command.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::{File, Mode, title};
use crate::error::{Error, Result, printable};
use crate::kube::{Command, Outcome};

pub fn to_junit(files: &[File], mode: Mode) -> Result<String> {
    let mut report = Report::new("underpin kube");
    report.add_test_suites(files.iter().map(|file| suite(file, mode)));
    report.to_string().map_err(|error| Error::input("the report cannot be written as XML").cause(error))
}

fn suite(file: &File, mode: Mode) -> TestSuite {
    let mut suite = TestSuite::new(printable(&file.path));
    match &file.result {
        Err(error) => {
            suite.add_test_case(case("the file", failure(NonSuccessKind::Error, "unreadable", &error.to_string())));
        }
        Ok(judged) => {
            if let Some((why, _)) = &judged.refused {
                suite.add_test_case(case("the file", failure(NonSuccessKind::Failure, why.rule.word(), &why.detail)));
            }
            suite.add_test_cases(judged.commands.iter().map(|command| of_command(command, mode)));
        }
    }
    suite
}

fn of_command(command: &Command, mode: Mode) -> TestCase {
    let at = command.position;
    let status = match &command.outcome {
        Outcome::Refused(why) => {
            let detail = format!("line {}, column {}: {}", at.line, at.column, why.detail);
            failure(NonSuccessKind::Failure, why.rule.word(), &detail)
        }
        Outcome::Changed(_) if mode == Mode::Check => {
            let detail = format!("line {}, column {}: a shell starts the program, and it need not", at.line, at.column);
            failure(NonSuccessKind::Failure, "shell-form", &detail)
        }
        _ => TestCaseStatus::success(),
    };
    case(&title(command), status)
}

fn case(name: &str, status: TestCaseStatus) -> TestCase {
    TestCase::new(printable(name), status)
}

fn failure(kind: NonSuccessKind, rule: &str, message: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(rule);
    status.set_message(printable(message));
    status
}

# Moves images as a step of a release made with GNU make 4.0 or newer. Set the variables, then include this file:
#
#   UNDERPIN_IMAGES       = kube-proxy              # names: letters, digits, `.`, `_`, `-`
#   kube-proxy_SOURCE     = oci:_output/images:kube-proxy
#   kube-proxy_TARGET     = registry.example/kube-proxy:v1.17.0
#   kube-proxy_OLD_BASE   = registry.example/debian-base:v2.0.0   # optional: else it is detected
#   kube-proxy_SOURCE_NAME = registry.example/kube-proxy          # optional: the name to record for a local source
#   kube-proxy_FLAGS      = --logs klog                           # optional: more flags of `underpin rebase`, such as --start
#   include scripts/make/underpin.mk
#
#   make underpin-release   moves what changed; .underpin/NAME.digest holds the digest, .underpin/NAME.json the report
#   make underpin-plan      explains every move and writes nothing
#   make underpin-check     puts what would be released, and UNDERPIN_CHECK_IMAGES, to the base-image policy; publishes nothing
#   make underpin-elf       the static check on the files of UNDERPIN_BINARIES
#
# A stamp is older than its inputs when a local source or base was written again, when a flag or underpin itself
# changed, or when a local target is gone. What a tag in a registry means can change without a file changing: then
# underpin is asked every time, and a stamp whose digest stays is left alone. Without a stamp nothing was published.
#
# Values are passed on as one word each, spaces and quotes included; only NAME_FLAGS and UNDERPIN_CHECK_FLAGS are
# read by the shell, so write quotes there as you would in a shell.

UNDERPIN        ?= underpin
UNDERPIN_BASE   ?= gcr.io/distroless/static
# The name to record for a base that is read from a layout, an archive or a mirror; NAME_BASE_NAME for one image.
UNDERPIN_BASE_NAME ?=
# Where stamps and reports are kept.
UNDERPIN_STAMPS ?= .underpin
# What `underpin-check` allows in place of its defaults (a list), and the Markdown list of exceptions (a file).
UNDERPIN_ALLOW_BASES ?=
UNDERPIN_EXCEPTIONS  ?=

# Included at the top of a Makefile, nothing here becomes its default goal.
underpin.goal := $(.DEFAULT_GOAL)

ifneq ($(words $(UNDERPIN_STAMPS)),1)
$(error underpin.mk: UNDERPIN_STAMPS must be one directory without spaces in its name, not '$(UNDERPIN_STAMPS)')
endif

.PHONY: underpin-release underpin-plan underpin-check underpin-elf underpin-ask
underpin-ask:

underpin.empty :=
underpin.space := $(underpin.empty) $(underpin.empty)
underpin.quote = '$(subst ','\'',$(strip $1))'

# $(call underpin.value,NAME,WORD): NAME_WORD, which must be set by now.
underpin.value = $(or $(strip $($1_$2)),$(error underpin.mk: $1_$2 is not set; it must be, before the include line))
underpin.base = $(or $(strip $($1_BASE)),$(UNDERPIN_BASE))
underpin.base-name = $(or $(strip $($1_BASE_NAME)),$(strip $(UNDERPIN_BASE_NAME)))

# $(call underpin.path,LOCATION): the file or directory of a local location, its spaces escaped for make. As underpin
# reads it: behind the last colon stands the tag, unless it has a slash; behind the first one of a docker archive, a name.
underpin.path = $(subst <space>,\ ,$(subst $(underpin.space),\:,$(call underpin.untagged,$(call underpin.rest,$(call underpin.split,$1)))))
underpin.split = $(subst :, ,$(firstword $(subst @sha256:, ,$(subst $(underpin.space),<space>,$(strip $1)))))
underpin.rest = $(wordlist 2,$(words $1),$1)
underpin.untagged = $(if $(and $(word 2,$1),$(if $(findstring /,$(lastword $1)),,tag)),$(wordlist 2,$(words $1),_ $1),$1)
underpin.kind = $(firstword $(subst :, ,$(strip $1)))
underpin.file.oci = $(call underpin.path,$1)/index.json
underpin.file.oci-archive = $(call underpin.path,$1)
underpin.file.docker-archive = $(subst <space>,\ ,$(word 2,$(call underpin.split,$1)))
# The file that changes when the image at a local location does; nothing for a registry.
underpin.file = $(if $1,$(call underpin.file.$(call underpin.kind,$1),$1))

# What a stamp must be newer than: a file, or for a tag in a registry a question to underpin.
underpin.needs = $(or $(call underpin.file,$1),$(if $(or $(findstring @sha256:,$1),$(call underpin.no-image,$1)),,underpin-ask))
underpin.no-image = $(or $(if $(strip $1),,yes),$(filter scratch layers:%,$1))
# A local target that is gone must be made again, whatever the stamp says.
underpin.gone = $(if $(call underpin.file,$1),$(if $(wildcard $(call underpin.file,$1)),,underpin-ask))

# $(call underpin.words,NAME): the words that `rebase` and `plan` share; without the target, those of a check.
underpin.words = $(underpin.move) --to $(call underpin.quote,$(call underpin.value,$1,TARGET))
underpin.move = $(call underpin.quote,$(call underpin.value,$1,SOURCE)) --base $(call underpin.quote,$(call underpin.base,$1)) \
  $(if $(strip $($1_SOURCE_NAME)),--source-name $(call underpin.quote,$($1_SOURCE_NAME))) \
  $(if $(call underpin.base-name,$1),--base-name $(call underpin.quote,$(call underpin.base-name,$1))) \
  $(if $(strip $($1_OLD_BASE)),--old-base $(call underpin.quote,$($1_OLD_BASE))) \
  $($1_FLAGS)

# $(eval $(call underpin.image,NAME)): the rules of one image.
define underpin.image
$(if $(or $(findstring /,$1),$(findstring %,$1),$(findstring :,$1)),$(error underpin.mk: '$1' cannot name an image in UNDERPIN_IMAGES))
.PHONY: underpin-plan-$1 underpin-move-$1
underpin-release: $(UNDERPIN_STAMPS)/$1.digest
underpin-plan: underpin-plan-$1

# Written anew only when it differs: the command line, the time that goes into the result, and underpin's version. Also
# with `make -n` (hence the plus), which could not tell what would be moved otherwise.
$(UNDERPIN_STAMPS)/$1.command: underpin-ask
	+@mkdir -p $(UNDERPIN_STAMPS) && version=$$$$($$(call underpin.quote,$$(UNDERPIN)) --version) && \
	printf '%s\n' $$(call underpin.quote,$$(call underpin.words,$1)) "$$$$SOURCE_DATE_EPOCH" "$$$$version" >$$@.new && \
	{ cmp -s $$@.new $$@ && rm -f $$@.new || mv -f $$@.new $$@; }

# The stamp is away while underpin works, so neither a failure nor a signal leaves an old one behind. It gets the time
# at which the work began: what is written meanwhile is newer.
$(UNDERPIN_STAMPS)/$1.digest: $(UNDERPIN_STAMPS)/$1.command $(call underpin.needs,$(call underpin.value,$1,SOURCE)) \
    $(call underpin.needs,$($1_OLD_BASE)) $(call underpin.needs,$(call underpin.base,$1)) $(call underpin.gone,$(call underpin.value,$1,TARGET))
	@touch $$@.start; if [ -e $$@ ]; then mv -f $$@ $$@.old; fi; rm -f $$@.new $$(@:.digest=.json)
	@$$(call underpin.quote,$$(UNDERPIN)) rebase -q $$(call underpin.words,$1) --report json=$$(@:.digest=.json) --digest-file $$@.new
	@$$(if $$(filter-out underpin-ask,$$?),,if cmp -s $$@.new $$@.old; then mv -f $$@.old $$@; rm -f $$@.new; fi;) \
	if [ -e $$@.new ]; then touch -r $$@.start $$@.new && mv -f $$@.new $$@; fi; rm -f $$@.old $$@.start

# Shown in one piece, so that plans of several jobs do not mix.
underpin-plan-$1: | $(UNDERPIN_STAMPS)
	@$$(call underpin.quote,$$(UNDERPIN)) plan $$(call underpin.words,$1) >$(UNDERPIN_STAMPS)/$1.plan; \
	status=$$$$?; cat $(UNDERPIN_STAMPS)/$1.plan; exit $$$$status

# The result in a layout of its own, to be checked.
underpin-move-$1: | $(UNDERPIN_STAMPS)
	@rm -rf $(UNDERPIN_STAMPS)/check/$1 && mkdir -p $(UNDERPIN_STAMPS)/check
	@$$(call underpin.quote,$$(UNDERPIN)) rebase -q $$(call underpin.move,$1) --to $(call underpin.checked,$1) >/dev/null
endef

# A directory with the name of the image: by that name the exception list knows it.
underpin.checked = oci:$(UNDERPIN_STAMPS)/check/$1:checked

$(UNDERPIN_STAMPS):
	@mkdir -p $@

$(foreach image,$(UNDERPIN_IMAGES),$(eval $(call underpin.image,$(image))))

underpin.none = @echo 'underpin.mk: $1 is empty; set it before the include line' >&2; exit 2

underpin-release underpin-plan:
	$(if $(strip $(UNDERPIN_IMAGES)),@:,$(call underpin.none,UNDERPIN_IMAGES))

underpin-check: $(addprefix underpin-move-,$(UNDERPIN_IMAGES))
	@$(call underpin.quote,$(UNDERPIN)) check $(foreach image,$(UNDERPIN_IMAGES),$(call underpin.checked,$(image))) \
	  $(foreach image,$(UNDERPIN_CHECK_IMAGES),$(call underpin.quote,$(image))) \
	  $(if $(strip $(UNDERPIN_EXCEPTIONS)),--exceptions $(call underpin.quote,$(UNDERPIN_EXCEPTIONS))) \
	  $(foreach base,$(UNDERPIN_ALLOW_BASES),--allow-base $(call underpin.quote,$(base))) $(UNDERPIN_CHECK_FLAGS)

underpin-elf: $(UNDERPIN_BINARIES)
	$(if $(strip $(UNDERPIN_BINARIES)),@$(call underpin.quote,$(UNDERPIN)) elf $(foreach file,$(UNDERPIN_BINARIES),$(call underpin.quote,$(file))),$(call underpin.none,UNDERPIN_BINARIES))

.DEFAULT_GOAL := $(underpin.goal)

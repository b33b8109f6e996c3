(() => {
  const box = document.getElementById('find');
  const all = [...document.querySelectorAll('details')];
  const before = new Map(all.map((it) => [it, it.open]));
  if (box) {
    const input = box.querySelector('input'), count = box.querySelector('output');
    const rows = [...document.querySelectorAll('.tree li')];
    const name = (row) => (row.querySelector(':scope > .nm, :scope > details > summary > .nm')?.textContent ?? '').toLowerCase();
    const show = (row) => {
      for (let it = row; it; it = it.parentElement) {
        if (it.tagName === 'LI') it.hidden = false;
        if (it.tagName === 'DETAILS' && it !== row.firstElementChild) it.open = true;
      }
    };
    const search = () => {
      const wanted = input.value.trim().toLowerCase();
      rows.forEach((row) => { row.hidden = wanted !== ''; });
      all.forEach((it) => { it.open = before.get(it); });
      const found = wanted === '' ? [] : rows.filter((row) => name(row).includes(wanted));
      found.forEach((row) => { show(row); row.querySelectorAll('li').forEach((below) => { below.hidden = false; }); });
      count.textContent = wanted === '' ? '' : found.length === 1 ? '1 file' : found.length + ' files';
    };
    let timer;
    input.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(search, 120); });
    addEventListener('keydown', (event) => {
      if (event.key === '/' && document.activeElement !== input) { event.preventDefault(); input.focus(); }
      if (event.key === 'Escape' && document.activeElement === input) { input.value = ''; search(); input.blur(); }
    });
    box.hidden = false;
  }
  addEventListener('beforeprint', () => all.forEach((it) => { it.open = true; }));
  addEventListener('afterprint', () => all.forEach((it) => { it.open = before.get(it); }));
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
  addEventListener('hashchange', () => { const it = document.getElementById(location.hash.slice(1)); if (it instanceof HTMLDetailsElement) it.open = true; });
})();

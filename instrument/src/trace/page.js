'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const byId = (id) => document.getElementById(id);
  const LEVELS = 7;
  const CHECKPOINT = 250;

  // Readable numbers.

  const thousands = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ',');
  const count = (n, one, many = one + 's') => `${thousands(n)} ${n === 1 ? one : many}`;
  const sum = (numbers) => numbers.reduce((all, n) => all + n, 0);
  function size(bytes) {
    if (bytes < 1024) return `${bytes} B`;
    const units = ['KiB', 'MiB', 'GiB', 'TiB'];
    let unit = -1;
    let n = bytes;
    do { n /= 1024; unit += 1; } while (n >= 1024 && unit < units.length - 1);
    return `${n.toFixed(1)} ${units[unit]}`;
  }
  function time(micros) {
    if (micros < 1000) return `${micros} µs`;
    if (micros < 1e6) return `${(micros / 1000).toFixed(1)} ms`;
    return `${(micros / 1e6).toFixed(2)} s`;
  }

  function element(name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  // The state of the database after some steps of a run.

  class State {
    constructor() {
      this.level = new Map();
      this.born = new Map();
      this.heat = new Map();
      this.mem = { n: 0, bytes: 0 };
      this.wal = 0;
      this.frozen = [];
      this.flushing = false;
      this.jobs = new Map();
      this.stall = null;
      this.sums = {
        flushes: 0, flush_bytes: 0, flush_micros: 0, flush: [0, 0], level0: [0, 0],
        slowdown: [0, 0], gets: 0, found: 0, cache: 0, file: 0, without: [0, 0], in_memory: 0,
        dropped_tables: 0,
      };
      this.levels = Array.from({ length: LEVELS }, () => ({
        files: 0, bytes: 0, compactions: 0, moves: 0, bytes_read: 0, bytes_written: 0,
        entries_dropped: 0, micros: 0,
      }));
    }

    clone() {
      const copy = Object.assign(new State(), this);
      for (const name of ['level', 'born', 'heat', 'jobs']) copy[name] = new Map(this[name]);
      copy.mem = { ...this.mem };
      copy.frozen = [...this.frozen];
      copy.sums = { ...this.sums };
      for (const pair of ['flush', 'level0', 'slowdown', 'without']) copy.sums[pair] = [...this.sums[pair]];
      copy.levels = this.levels.map((level) => ({ ...level }));
      return copy;
    }

    add(run, placed, at) {
      for (const [number, level] of placed) {
        this.level.set(number, level);
        if (!this.born.has(number)) this.born.set(number, at);
        this.levels[level].files += 1;
        this.levels[level].bytes += run.raw.tables[number].bytes;
      }
    }

    remove(run, placed) {
      for (const [number, level] of placed) {
        this.level.delete(number);
        this.levels[level].files -= 1;
        this.levels[level].bytes -= run.raw.tables[number].bytes;
      }
    }

    apply(run, step, at) {
      const sums = this.sums;
      const bytes = (placed) => sum(placed.map(([n]) => run.raw.tables[n].bytes));
      switch (step.t) {
        case 'open': this.add(run, step.add, at); break;
        case 'grew': this.mem = { n: step.n, bytes: step.mem }; this.wal = step.wal; break;
        case 'frozen':
          this.frozen.push({ n: step.n, bytes: step.mem, log: step.log });
          this.mem = { n: 0, bytes: 0 };
          this.wal = 0;
          break;
        case 'flush': this.jobs.set(step.job, step); this.flushing = true; break;
        case 'flushed':
          this.jobs.delete(step.job);
          this.flushing = false;
          if (step.error) break;
          this.frozen.shift();
          this.add(run, step.add, at);
          sums.flushes += 1;
          sums.flush_bytes += bytes(step.add);
          sums.flush_micros += step.took;
          break;
        case 'compact': this.jobs.set(step.job, step); break;
        case 'compacted': {
          this.jobs.delete(step.job);
          if (step.error) break;
          this.remove(run, step.in);
          this.add(run, step.add, at);
          const level = this.levels[step.to];
          if (step.kind === 'move') level.moves += step.add.length;
          else if (step.kind === 'drop') sums.dropped_tables += step.in.length;
          else {
            level.compactions += 1;
            level.bytes_read += bytes(step.in);
            level.bytes_written += bytes(step.add);
            level.entries_dropped += step.dropped;
            level.micros += step.took;
          }
          break;
        }
        case 'tables': this.remove(run, step.in); this.add(run, step.add, at); break;
        case 'stall': this.stall = step.why; break;
        case 'stalled':
          this.stall = null;
          sums[step.why][0] += 1;
          sums[step.why][1] += step.took;
          break;
        case 'get':
          sums.gets += 1;
          sums.found += step.found ? 1 : 0;
          sums.cache += step.cache;
          sums.file += step.file;
          sums.without[0] += step.without?.[0] ?? 0;
          sums.without[1] += step.without?.[1] ?? 0;
          for (const part of step.path) {
            if (part[0] === 'table') this.heat.set(part[1], (this.heat.get(part[1]) ?? 0) + 1);
            if (part[0] === 'memtable' && part[2] !== null) sums.in_memory += 1;
          }
          break;
        default:
      }
    }
  }

  // A run, with a saved state every CHECKPOINT steps.

  class Run {
    constructor(raw) {
      this.raw = raw;
      this.steps = raw.steps;
      this.checkpoints = [];
      this.most = { mem: 1, wal: 1, rows: 1, level: 1, heat: 1 };
      this.gets = [];
      const state = new State();
      this.steps.forEach((step, at) => {
        state.apply(this, step, at);
        if (at % CHECKPOINT === 0) this.checkpoints.push(state.clone());
        const most = this.most;
        most.mem = Math.max(most.mem, step.mem ?? 0);
        most.wal = Math.max(most.wal, step.wal ?? 0);
        most.rows = Math.max(most.rows, state.levels[0].files);
        state.levels.forEach((level, i) => { if (level.files) most.level = Math.max(most.level, i); });
        if (step.t === 'get') this.gets.push(at);
      });
      for (const heat of state.heat.values()) this.most.heat = Math.max(this.most.heat, heat);
      this.end = state;
      this.bars = this.findBars();
    }

    /// Returns the state after the step `at`.
    state(at) {
      if (this.cached && this.cachedAt <= at && at - this.cachedAt < CHECKPOINT) {
        for (let i = this.cachedAt + 1; i <= at; i += 1) this.cached.apply(this, this.steps[i], i);
      } else {
        const from = Math.floor(at / CHECKPOINT);
        this.cached = this.checkpoints[from].clone();
        for (let i = from * CHECKPOINT + 1; i <= at; i += 1) this.cached.apply(this, this.steps[i], i);
      }
      this.cachedAt = at;
      return this.cached;
    }

    /// Returns flushes, compactions and stalls as bars of the timeline, each in a lane.
    findBars() {
      const open = new Map();
      const bars = [];
      const lanes = [];
      let stall = null;
      this.steps.forEach((step, at) => {
        if (step.t === 'flush') open.set(step.job, { kind: 'flush', from: at, lane: 0 });
        if (step.t === 'compact') {
          let lane = lanes.findIndex((taken) => !taken);
          if (lane < 0) lane = lanes.length;
          lanes[lane] = true;
          open.set(step.job, { kind: 'compact', from: at, lane, level: step.to });
        }
        if (step.t === 'flushed' || step.t === 'compacted') {
          const bar = open.get(step.job);
          open.delete(step.job);
          if (bar) {
            bars.push({ ...bar, to: at, failed: Boolean(step.error) && !step.gave_up });
            if (bar.kind === 'compact') lanes[bar.lane] = false;
          }
        }
        if (step.t === 'stall') stall = at;
        if (step.t === 'stalled') { bars.push({ kind: 'stall', from: stall ?? at, to: at, lane: 0 }); stall = null; }
      });
      this.lanes = Math.max(1, lanes.length);
      return bars;
    }

    key(place) { return this.raw.keys[place]; }
  }

  // Sentences.

  const quoted = (key) => `“${key}”`;
  function tablesOf(placed) {
    const levels = new Map();
    for (const [, level] of placed) levels.set(level, (levels.get(level) ?? 0) + 1);
    return [...levels].map(([level, n]) => `${count(n, 'table')} of level ${level}`).join(' and ');
  }

  function sentence(run, step) {
    const bytes = (placed) => size(sum(placed.map(([n]) => run.raw.tables[n].bytes)));
    switch (step.t) {
      case 'open': return [`The database is opened, with ${count(step.add.length, 'table')}.`, ''];
      case 'grew': return [`Puts fill the log and the memtable: ${count(step.n, 'entry', 'entries')}, ${size(step.mem)} in memory.`, ''];
      case 'frozen': return [`The memtable is full and is frozen, with ${count(step.n, 'entry', 'entries')}.`, 'A new log and an empty memtable take over, so that puts go on.'];
      case 'flush': return [`A flush begins: the frozen memtable is written to a table of level 0.`, ''];
      case 'flushed':
        if (step.error) return [`The flush failed: ${step.error}`, ''];
        return step.add.length
          ? [`The flush has made table ${step.add[0][0]}, ${bytes(step.add)}, in ${time(step.took)}.`, 'The log of that memtable is no longer needed.']
          : ['The flush had nothing to write.', ''];
      case 'compact': {
        const from = tablesOf(step.in);
        if (step.kind === 'move') return [`${from} overlaps nothing in level ${step.to}: it will move there as it is.`, ''];
        if (step.kind === 'drop') return [`All entries of ${from} have expired: it will be dropped without being read.`, ''];
        return [`A compaction begins to merge ${from} into level ${step.to}.`, `It reads ${bytes(step.in)}.`];
      }
      case 'compacted': {
        if (step.gave_up) return ['A compaction is given up, because the database is being closed.', 'The next open starts it again.'];
        if (step.error) return [`The compaction failed: ${step.error}`, ''];
        if (step.kind === 'move') return [`${count(step.add.length, 'table')} moved to level ${step.to}; no byte was written.`, ''];
        if (step.kind === 'drop') return [`${count(step.in.length, 'table')} dropped.`, ''];
        const left = step.dropped ? `${count(step.dropped, 'entry', 'entries')} that no reader can see were dropped.` : '';
        return [`The compaction has written ${count(step.add.length, 'table')} of level ${step.to}, ${bytes(step.add)}, in ${time(step.took)}.`, left];
      }
      case 'tables': return [`Tables were ingested or dropped: ${step.add.length} new, ${step.in.length} gone.`, ''];
      case 'stall': return ['A writer has to wait.', stallReason(step.why)];
      case 'stalled': return [`The writer goes on after ${time(step.took)}.`, step.why === 'slowdown' ? 'It was slowed down, so that it need not stop later.' : ''];
      case 'get': return [`A get of ${quoted(run.key(step.key))} ${step.found ? 'finds its value' : 'finds nothing'}.`, cost(step)];
      case 'close': return ['The database is closed. This is the end of the run.', ''];
      default: return ['', ''];
    }
  }

  function stallReason(why) {
    if (why === 'flush') return 'Frozen memtables wait for their flush.';
    if (why === 'level0') return 'Level 0 is full.';
    return 'It is slowed down a little, so that it need not stop later.';
  }

  function cost(step) {
    const read = step.cache + step.file;
    const blocks = count(read, 'data block');
    if (step.without === null) return `It read ${blocks}.`;
    return `It read ${blocks}; without filters it would have read ${thousands(sum(step.without))}.`;
  }

  // The path of a get, in words.

  function pathItems(run, step) {
    const items = [];
    for (const part of step.path) {
      const [what, a, b, c] = part;
      if (what === 'memtable') {
        const name = a ? 'Frozen memtable' : 'Memtable';
        items.push(b === null ? [`${name}: not here`] : [`${name}: here, written as number ${thousands(b)}`, 'yes']);
      } else if (what === 'skipped') {
        items.push([`Level ${a}: ${count(b, 'table')} skipped, the key is outside ${b === 1 ? 'its' : 'their'} range`]);
      } else if (what === 'table') {
        const table = run.raw.tables[a];
        items.push([`Level ${b}: table ${a}${table ? `, ${size(table.bytes)},` : ''} has the key in its range`]);
      } else if (what === 'filter') {
        const name = a === 'table' ? 'table filter' : 'filter of the block';
        const said = {
          'true positive': [`the ${name} says “maybe”, and is right`, 'in'],
          'false positive': [`the ${name} says “maybe”, but the key is not here: a false positive`, 'in bad'],
          'true negative': [`the ${name} says “not here”, and is right: no block is read`, 'in'],
          'false negative': [`the ${name} says “not here”, and is WRONG`, 'in bad'],
          'unknown negative': [`the ${name} says “not here”; the block is unreadable`, 'in bad'],
        };
        items.push(said[b]);
      } else if (what === 'index') {
        items.push(a === null ? ['index: after the last key', 'in'] : [`index: the block at byte ${thousands(a)}`, 'in']);
      } else if (what === 'block') {
        items.push([`block of ${size(b)}, from ${c ? 'the cache' : 'the file'}`, 'in']);
      } else if (what === 'entry') {
        items.push(c === undefined || part[3] === 'put'
          ? [`found: ${count(b, 'byte')}, written as number ${thousands(a)}`, 'in yes']
          : [`found: deleted by write number ${thousands(a)}`, 'in yes']);
      } else if (what === 'not here') {
        items.push(['not in the block: it was read in vain', 'in bad']);
      }
    }
    return items;
  }

  // The state of the page.

  const runs = data.runs.map((raw) => new Run(raw));
  const busiest = runs.reduce((best, run, i) => (run.steps.length > runs[best].steps.length ? i : best), 0);
  let run = runs[busiest];
  let at = 0;
  let asked = null;
  let playing = null;
  /// Whether the user has not chosen a step yet: the run then plays from its beginning.
  let untouched = true;
  let colours = {};
  let boxes = [];

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const names = ['paper', 'ink', 'soft', 'rule', 'panel', 'mem', 'log', 'busy', 'heat', 'good', 'bad', 'no', 'accent', 'on', 'l0', 'l1', 'l2', 'l3', 'l4', 'l5', 'l6'];
    colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  /// Returns the colour of text on `colour`, which covers the page's own colour with opacity `alpha`.
  function textOn(colour, alpha) {
    const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    const [over, under] = [parts(colour), parts(colours.paper)];
    const [r, g, b] = over.map((part, i) => alpha * part + (1 - alpha) * under[i]);
    return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? '#0d1117' : '#ffffff';
  }

  /// Fits a canvas to its place. Returns its context, in CSS pixels, with width and height.
  function fit(canvas, height) {
    const width = canvas.clientWidth;
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      canvas.style.height = `${height}px`;
    }
    const paint = canvas.getContext('2d');
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, width, height);
    return { paint, width, height };
  }

  // The timeline.

  let timeline = null;
  const LABELS = 78;
  const left = (width) => (width > 600 ? LABELS : 0);

  function drawTimeline() {
    const height = window.innerWidth <= 704 ? 72 : 96;
    const { width } = fit(byId('line'), height);
    const image = element('canvas');
    const ratio = window.devicePixelRatio || 1;
    [image.width, image.height] = [byId('line').width, byId('line').height];
    const paint = image.getContext('2d');
    paint.scale(ratio, ratio);
    const from = left(width);
    const n = Math.max(1, run.steps.length - 1);
    const x = (step) => from + (step / n) * (width - from - 1);
    const rows = { mem: [0, 0.3], flush: [0.34, 0.48], compact: [0.5, 0.74], stall: [0.77, 0.86], get: [0.89, 1] };
    const y = (name, part) => (rows[name][0] + (rows[name][1] - rows[name][0]) * part) * (height - 2) + 1;
    paint.font = '11px system-ui, sans-serif';
    paint.textBaseline = 'middle';
    if (from) {
      paint.fillStyle = colours.soft;
      const names = { mem: 'memtable', flush: 'flushes', compact: 'compactions', stall: 'stalls', get: 'lookups' };
      for (const name of Object.keys(names)) paint.fillText(names[name], 0, y(name, 0.5));
    }
    // The memtable fills and is frozen.
    paint.fillStyle = colours.mem;
    let [last, filled] = [0, 0];
    run.steps.forEach((step, i) => {
      if (step.mem === undefined) return;
      const top = y('mem', 1 - filled / run.most.mem);
      paint.fillRect(x(last), top, Math.max(0.5, x(i) - x(last)), y('mem', 1) - top);
      [last, filled] = [i, step.t === 'frozen' ? 0 : step.mem];
    });
    const top = y('mem', 1 - filled / run.most.mem);
    paint.fillRect(x(last), top, x(n) - x(last), y('mem', 1) - top);
    for (const bar of run.bars) {
      const lanes = bar.kind === 'compact' ? run.lanes : 1;
      const [from, to] = [y(bar.kind, bar.lane / lanes), y(bar.kind, (bar.lane + 1) / lanes)];
      if (bar.failed || bar.kind === 'stall') paint.fillStyle = colours.bad;
      else paint.fillStyle = bar.kind === 'flush' ? colours.l0 : colours[`l${bar.level}`];
      paint.fillRect(x(bar.from), from, Math.max(1.5, x(bar.to) - x(bar.from)), Math.max(1, to - from - 1));
    }
    for (const get of run.gets) {
      const step = run.steps[get];
      paint.fillStyle = hasFalsePositive(step) ? colours.bad : step.found ? colours.good : colours.no;
      paint.fillRect(x(get), y('get', 0), 1, y('get', 1) - y('get', 0));
    }
    timeline = { image, x, from, width, height };
  }

  function drawHead() {
    const { paint } = fit(byId('line'), timeline.height);
    // A canvas without area, as in a hidden frame, cannot be painted from.
    if (!timeline.image.width || !timeline.image.height) return;
    paint.drawImage(timeline.image, 0, 0, timeline.width, timeline.height);
    paint.fillStyle = colours.ink;
    paint.fillRect(timeline.x(at) - 1, 0, 2, timeline.height);
  }

  // The levels.

  const hasFalsePositive = (step) => step.path.some((part) => part[0] === 'filter' && part[2] === 'false positive');

  function lookupShown() {
    if (asked !== null) return run.steps[asked];
    const step = run.steps[at];
    return step.t === 'get' ? step : null;
  }

  function drawStage(state) {
    const canvas = byId('stage');
    const wide = canvas.clientWidth > 600;
    const label = wide ? 108 : 48;
    const top = 20;
    const rowHeight = wide ? 38 : 30;
    const gap = 10;
    const shown = Math.min(run.most.rows, 12);
    const sub = Math.max(6, Math.min(rowHeight - 8, 150 / shown));
    const barHeight = 20;
    const zero = top + 3 * (barHeight + gap);
    const first = Math.max(rowHeight, Math.max(1, run.most.rows) * Math.min(sub, 240 / run.most.rows)) + gap;
    const height = zero + first + run.most.level * (rowHeight + gap) + 6;
    const { paint, width } = fit(canvas, height);
    const span = width - label - 4;
    const n = Math.max(1, run.raw.keys.length - 1);
    const x = (key) => label + 2 + (key / n) * span;
    paint.textBaseline = 'middle';
    const font = (px, bold) => { paint.font = `${bold ? '600 ' : ''}${px}px system-ui, sans-serif`; };
    const rowLabel = (name, detail, y) => {
      font(12, true);
      paint.fillStyle = colours.ink;
      paint.fillText(name, 0, detail && wide ? y - 7 : y);
      if (detail && wide) {
        font(11);
        paint.fillStyle = colours.soft;
        paint.fillText(detail, 0, y + 8);
      }
    };
    const bar = (name, y, part, colour, text) => {
      rowLabel(name, '', y + barHeight / 2);
      paint.fillStyle = colours.panel;
      paint.fillRect(label + 2, y, span, barHeight);
      paint.fillStyle = colour;
      paint.fillRect(label + 2, y, span * Math.min(1, part), barHeight);
      font(11);
      const inside = span * part > paint.measureText(text).width + 16;
      paint.fillStyle = inside ? textOn(colour, 1) : colours.ink;
      paint.fillText(text, inside ? label + 8 : label + 8 + span * Math.min(1, part), y + barHeight / 2);
    };
    bar('Log', top, state.wal / run.most.wal, colours.log, size(state.wal));
    bar(wide ? 'Memtable' : 'Mem', top + barHeight + gap, state.mem.bytes / run.most.mem, colours.mem, `${size(state.mem.bytes)}, ${count(state.mem.n, 'entry', 'entries')}`);
    const frozenY = top + 2 * (barHeight + gap);
    rowLabel('Frozen', '', frozenY + barHeight / 2);
    state.frozen.forEach((frozen, i) => {
      const w = Math.min(span / Math.max(2, state.frozen.length) - 6, (span / 2) * (frozen.bytes / run.most.mem));
      const from = label + 2 + i * (span / Math.max(2, state.frozen.length));
      paint.globalAlpha = 0.6;
      paint.fillStyle = colours.mem;
      paint.fillRect(from, frozenY, Math.max(2, w), barHeight);
      paint.globalAlpha = 1;
      if (i === 0 && state.flushing) outline(paint, from, frozenY, Math.max(2, w), barHeight, colours.busy, [4, 3]);
      font(11);
      paint.fillStyle = colours.ink;
      if (w > 90) paint.fillText(i === 0 && state.flushing ? 'being flushed' : 'waits', from + 6, frozenY + barHeight / 2);
    });

    // Tables of each level.
    boxes = [];
    const byLevel = Array.from({ length: LEVELS }, () => []);
    for (const [number, level] of state.level) byLevel[level].push(number);
    byLevel[0].sort((a, b) => b - a);
    const busy = new Set();
    for (const job of state.jobs.values()) for (const [number] of job.in ?? []) busy.add(number);
    const step = run.steps[at];
    const fresh = new Set((step.add ?? []).map(([number]) => number));
    let y = zero;
    const rowsOf = [];
    for (let level = 0; level <= run.most.level; level += 1) {
      const full = level === 0 ? first - gap : rowHeight;
      const { files, bytes } = state.levels[level];
      paint.fillStyle = colours.panel;
      paint.fillRect(label + 2, y, span, full);
      rowLabel(wide ? `Level ${level}` : `L${level}`, files ? `${thousands(files)} · ${size(bytes)}` : 'empty', y + full / 2);
      const each = level === 0 ? full / Math.max(1, byLevel[0].length) : full;
      const boxHeight = level === 0 ? Math.min(each - 1, rowHeight) : full;
      byLevel[level].forEach((number, i) => {
        const table = run.raw.tables[number];
        const boxTop = level === 0 ? y + i * Math.min(each, rowHeight + 1) : y;
        const from = x(table.first);
        const box = { number, level, x: from, y: boxTop, w: Math.max(2, x(table.last) - from), h: Math.max(2, boxHeight) };
        drawBox(paint, box, table, state, busy.has(number), fresh.has(number), font);
        boxes.push(box);
      });
      rowsOf.push([y, full]);
      y += full + gap;
    }
    const get = lookupShown();
    if (get) drawPath(paint, get, x(get.key), rowsOf, top + barHeight + gap + barHeight / 2, font, label, width);
  }

  function outline(paint, x, y, w, h, colour, dash) {
    paint.save();
    paint.strokeStyle = colour;
    paint.lineWidth = 2;
    paint.setLineDash(dash);
    paint.strokeRect(x + 1, y + 1, Math.max(1, w - 2), Math.max(1, h - 2));
    paint.restore();
  }

  function drawBox(paint, box, table, state, busy, fresh, font) {
    const age = (at - state.born.get(box.number)) / Math.max(1, run.steps.length / 3);
    const alpha = 1 - 0.55 * Math.min(1, age);
    paint.globalAlpha = alpha;
    paint.fillStyle = colours[`l${box.level}`];
    paint.fillRect(box.x, box.y, box.w, box.h);
    paint.globalAlpha = 1;
    if (table.tombstones && table.entries) hatch(paint, box, table.tombstones / table.entries);
    const heat = state.heat.get(box.number) ?? 0;
    if (heat && box.h > 5) {
      const thick = 1 + Math.round((box.h / 5) * (Math.log1p(heat) / Math.log1p(run.most.heat)));
      paint.fillStyle = colours.heat;
      paint.fillRect(box.x, box.y + box.h - thick, box.w, thick);
    }
    paint.strokeStyle = colours.paper;
    paint.lineWidth = 1;
    if (box.w > 4) paint.strokeRect(box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1);
    if (fresh) outline(paint, box.x, box.y, box.w, box.h, colours.good, []);
    if (busy) outline(paint, box.x, box.y, box.w, box.h, colours.busy, [4, 3]);
    if (box.h < 13) return;
    font(11);
    const letter = { block: 'B', table: 'T', both: 'BT', none: '–' }[table.filter] ?? '?';
    const text = `${box.number} · ${size(table.bytes)}`;
    const middle = box.y + box.h / 2 - (heat ? 1 : 0);
    paint.fillStyle = textOn(colours[`l${box.level}`], alpha);
    const room = box.w - paint.measureText(letter).width - 14;
    if (room > paint.measureText(text).width) paint.fillText(text, box.x + 5, middle);
    else if (room > paint.measureText(String(box.number)).width) paint.fillText(box.number, box.x + 5, middle);
    if (room > 0) paint.fillText(letter, box.x + box.w - paint.measureText(letter).width - 5, middle);
  }

  function hatch(paint, box, share) {
    paint.save();
    paint.beginPath();
    paint.rect(box.x, box.y, Math.max(2, box.w * share), box.h);
    paint.clip();
    paint.strokeStyle = colours.paper;
    paint.lineWidth = 1.5;
    paint.beginPath();
    for (let x = box.x - box.h; x < box.x + box.w * share; x += 5) {
      paint.moveTo(x, box.y + box.h);
      paint.lineTo(x + box.h, box.y);
    }
    paint.stroke();
    paint.restore();
  }

  /// Draws the path of a get down through memtable and tables.
  function drawPath(paint, get, x, rows, memtableY, font, label, width) {
    const stops = [];
    let stop = null;
    for (const [what, a, b] of get.path) {
      if (what === 'memtable') stops.push({ y: memtableY, result: b === null ? 'pass' : 'yes' });
      if (what === 'skipped' && rows[a]) stops.push({ y: rows[a][0] + rows[a][1] / 2, result: 'pass' });
      if (what === 'table') {
        const box = boxes.find((other) => other.number === a);
        const row = rows[b] ?? rows[0];
        stop = { y: box ? box.y + box.h / 2 : row[0] + row[1] / 2, result: 'no', box };
        stops.push(stop);
      }
      if (what === 'not here') stop.result = 'bad';
      if (what === 'entry') stop.result = 'yes';
    }
    if (!stops.length) return;
    paint.strokeStyle = colours.ink;
    paint.lineWidth = 1.5;
    paint.beginPath();
    paint.moveTo(x, 0);
    paint.lineTo(x, stops[stops.length - 1].y);
    paint.stroke();
    for (const { y, result, box } of stops) {
      if (box) outline(paint, box.x, box.y, box.w, box.h, colours.ink, []);
      paint.beginPath();
      paint.arc(x, y, result === 'pass' ? 3 : 6, 0, 7);
      paint.fillStyle = { pass: colours.paper, no: colours.no, bad: colours.bad, yes: colours.good }[result];
      paint.fill();
      paint.strokeStyle = colours.ink;
      paint.lineWidth = 1;
      paint.stroke();
    }
    font(12, true);
    let text = run.key(get.key);
    if (text.length > 28) text = `${text.slice(0, 27)}…`;
    const w = paint.measureText(text).width + 8;
    const from = Math.max(label, Math.min(width - w, x + 5));
    paint.fillStyle = colours.paper;
    paint.globalAlpha = 0.85;
    paint.fillRect(from, 0, w, 18);
    paint.globalAlpha = 1;
    paint.fillStyle = colours.ink;
    paint.fillText(text, from + 4, 9);
  }

  // Everything besides the pictures.

  const valued = (parent, value, text) => {
    const made = element('data', text);
    made.value = value;
    parent.append(made);
    return made;
  };

  function showCounters(state) {
    const table = byId('levels');
    const head = ['level', 'tables', 'bytes', 'compactions into it', 'moves', 'bytes read', 'bytes written', 'entries dropped', 'time'];
    const row = (cells, name) => {
      const made = element('tr');
      for (const cell of cells) {
        const [value, text] = Array.isArray(cell) ? cell : [cell, String(cell)];
        if (name === 'td') valued(made.appendChild(element('td')), value, text);
        else made.append(element(name, text));
      }
      return made;
    };
    const body = element('tbody');
    state.levels.forEach((level, i) => {
      if (i > run.most.level && !level.compactions && !level.moves) return;
      body.append(row([`L${i}`, [level.files, thousands(level.files)], [level.bytes, size(level.bytes)],
        [level.compactions, thousands(level.compactions)], [level.moves, thousands(level.moves)],
        [level.bytes_read, size(level.bytes_read)], [level.bytes_written, size(level.bytes_written)],
        [level.entries_dropped, thousands(level.entries_dropped)], [level.micros, time(level.micros)]], 'td'));
    });
    const header = element('thead');
    header.append(row(head, 'th'));
    table.replaceChildren(header, body);
    const sums = state.sums;
    const stalls = sums.flush[0] + sums.level0[0] + sums.slowdown[0];
    const waited = sums.flush[1] + sums.level0[1] + sums.slowdown[1];
    const line = byId('sums');
    line.replaceChildren();
    valued(line, sums.flushes, count(sums.flushes, 'flush', 'flushes'));
    line.append(' wrote ');
    valued(line, sums.flush_bytes, size(sums.flush_bytes));
    line.append(' in ');
    valued(line, sums.flush_micros, time(sums.flush_micros));
    line.append('. Writers waited ');
    valued(line, stalls, `${count(stalls, 'time')}`);
    line.append(', ');
    valued(line, waited, time(waited));
    line.append(' in all.');
  }

  function showReads(state) {
    const { gets, found, cache, file, without, in_memory: inMemory } = state.sums;
    const line = byId('reads');
    const left = run.gets.length - gets;
    const how = run.raw.replay ? 'made when the database was closed' : 'made during the run';
    line.replaceChildren();
    if (!run.gets.length) {
      line.append('No lookup was recorded.');
      byId('race').replaceChildren();
      return;
    }
    valued(line, gets, count(gets, 'lookup'));
    line.append(` so far (${left ? `${thousands(left)} to come, ` : ''}${how}): `);
    valued(line, found, thousands(found));
    line.append(' found, ');
    valued(line, inMemory, thousands(inMemory));
    line.append(' of them answered in memory.');
    const race = byId('race');
    race.className = 'race';
    race.replaceChildren();
    const most = Math.max(1, sum(run.end.sums.without), run.end.sums.cache + run.end.sums.file);
    for (const [name, blocks, kind] of [['with filters', cache + file, 'with'], ['without', sum(without), '']]) {
      race.append(element('span', name));
      const cell = element('span');
      const strip = element('i', '', kind);
      strip.style.width = `${(100 * blocks) / most}%`;
      cell.append(strip);
      valued(cell, blocks, `${count(blocks, 'data block')} read`);
      race.append(cell);
    }
  }

  function showPath() {
    const place = byId('path');
    const get = lookupShown();
    place.replaceChildren();
    if (!get) {
      place.append(element('p', run.gets.length ? 'Step to a lookup, or type a key, to see the path of a get.' : ''));
      return;
    }
    const title = element('p');
    title.append('Get of ', element('code', run.key(get.key)), ': ', element('b', get.found ? `found, ${count(get.value, 'byte')}` : 'not found'));
    place.append(title);
    const list = element('ol');
    for (const [text, kind] of pathItems(run, get)) list.append(element('li', text, kind));
    place.append(list, element('p', cost(get)));
  }

  function showList(state) {
    const details = byId('list');
    if (!details.open) return;
    const rows = [...state.level].sort((a, b) => a[1] - b[1] || run.raw.tables[a[0]].first - run.raw.tables[b[0]].first);
    const body = element('tbody');
    for (const [number, level] of rows.slice(0, 500)) {
      const table = run.raw.tables[number];
      const row = element('tr');
      const cells = [number, `L${level}`, size(table.bytes), table.entries === null ? '?' : thousands(table.entries),
        table.tombstones === null ? '?' : thousands(table.tombstones), table.filter ?? '?', thousands(state.heat.get(number) ?? 0)];
      for (const cell of cells) row.append(element('td', cell));
      row.append(element('td', run.key(table.first), 'key'), element('td', run.key(table.last), 'key'));
      body.append(row);
    }
    const head = element('thead');
    const names = element('tr');
    for (const name of ['table', 'level', 'size', 'entries', 'tombstones', 'filter', 'lookups', 'first key', 'last key']) names.append(element('th', name));
    head.append(names);
    details.querySelector('table').replaceChildren(head, body);
  }

  /// Compares the sums of the events with the counters that the database reported at its close.
  function differences() {
    const { stats } = run.raw;
    if (!stats) return ['the database was not closed'];
    const wrong = [];
    const check = (name, ours, theirs) => { if (ours !== theirs) wrong.push(`${name}: ${ours}, not ${theirs}`); };
    const { sums, levels } = run.end;
    for (const name of ['flushes', 'flush_bytes', 'flush_micros']) check(name, sums[name], stats[name]);
    for (const cause of ['flush', 'level0', 'slowdown']) {
      check(`stalls for ${cause}`, sums[cause][0], stats.stalls[cause][0]);
      check(`time of stalls for ${cause}`, sums[cause][1], stats.stalls[cause][1]);
    }
    levels.forEach((level, i) => {
      for (const name of Object.keys(level)) check(`${name} of level ${i}`, level[name], stats.levels[i][name]);
    });
    if (!run.raw.replay) {
      // Each lookup was done twice, with filters and without.
      check('gets', 2 * sums.gets, stats.gets);
      check('gets that found', 2 * sums.found, stats.gets_found);
      check('blocks from the cache', sums.cache + sums.without[0], stats.reads.data_blocks_from_cache);
      check('blocks from files', sums.file + sums.without[1], stats.reads.data_blocks_from_file);
    }
    return wrong;
  }

  function showCheck() {
    const place = byId('check');
    if (at < run.steps.length - 1) {
      place.textContent = '';
      return;
    }
    const wrong = differences();
    place.className = wrong.length ? 'bad' : 'good';
    place.textContent = wrong.length
      ? `Not the database's own counters: ${wrong.join('; ')}`
      : '✓ These are the counters that the database itself had at the end (Db::stats).';
  }

  let due = false;
  function draw() {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      drawNow();
    });
  }

  function drawNow() {
    const state = run.state(at);
    const step = run.steps[at];
    drawHead();
    drawStage(state);
    const [main, more] = sentence(run, step);
    byId('now').replaceChildren(main, ' ', element('span', more));
    byId('clock').textContent = `step ${thousands(at + 1)} of ${thousands(run.steps.length)} · ${time(step.us)} after the open`;
    byId('seek').value = at + 1;
    byId('seek').setAttribute('aria-valuetext', main);
    showCounters(state);
    showReads(state);
    showPath();
    showList(state);
    showCheck();
    for (const place of document.querySelectorAll('.scroll')) showMore(place);
    document.body.dataset.step = at + 1;
  }

  /// Marks a place that scrolls whether it goes on to the right.
  function showMore(place) {
    place.classList.toggle('more', place.scrollLeft + place.clientWidth < place.scrollWidth - 1);
  }

  function goTo(step, keepsAsked) {
    at = Math.max(0, Math.min(run.steps.length - 1, step));
    if (!keepsAsked) asked = null;
    untouched = false;
    byId('hint').textContent = '';
    draw();
  }

  // Playing.

  function perSecond() {
    const n = run.steps.length;
    return { slow: 3, normal: Math.max(8, n / 40), fast: Math.max(30, n / 8) }[byId('speed').value];
  }

  function pause() {
    playing = null;
    byId('play').textContent = '▶ Play';
    byId('now').setAttribute('aria-live', 'polite');
  }

  function play() {
    if (playing) return;
    if (untouched || at >= run.steps.length - 1) goTo(0);
    playing = { time: performance.now(), exact: at };
    byId('play').textContent = '❚❚ Pause';
    byId('now').setAttribute('aria-live', 'off');
    requestAnimationFrame(tick);
  }

  function tick(now) {
    if (!playing) return;
    playing.exact += (Math.max(0, Math.min(250, now - playing.time)) / 1000) * perSecond();
    playing.time = now;
    const next = Math.min(run.steps.length - 1, Math.floor(playing.exact));
    if (next !== at) goTo(next);
    if (at >= run.steps.length - 1) {
      pause();
      // The last step is drawn before the end is announced.
      drawNow();
      document.body.dataset.played = 'end';
      return;
    }
    requestAnimationFrame(tick);
  }

  const toggle = () => (playing ? pause() : play());

  // Keys of the database.

  const utf8 = new TextEncoder();
  /// Returns the bytes of an escaped key.
  function bytesOf(text) {
    const bytes = [];
    for (let i = 0; i < text.length; i += 1) {
      const hex = text.slice(i).match(/^\\x([0-9a-fA-F]{2})/);
      if (hex) { bytes.push(parseInt(hex[1], 16)); i += 3; }
      else if (text.startsWith('\\\\', i)) { bytes.push(92); i += 1; }
      else {
        const char = String.fromCodePoint(text.codePointAt(i));
        bytes.push(...utf8.encode(char));
        i += char.length - 1;
      }
    }
    return bytes;
  }
  function compare(a, b) {
    for (let i = 0; i < Math.min(a.length, b.length); i += 1) if (a[i] !== b[i]) return a[i] - b[i];
    return a.length - b.length;
  }

  const sameBytes = (text, other) => compare(bytesOf(text), bytesOf(other)) === 0;

  function explain(text) {
    pause();
    const same = run.gets.filter((get) => run.key(run.steps[get].key) === text || sameBytes(run.key(run.steps[get].key), text));
    if (same.length) {
      const before = same.filter((get) => get <= at);
      const get = before.length ? before[before.length - 1] : same[0];
      goTo(get);
      return;
    }
    asked = null;
    drawNow();
    const place = byId('path');
    const title = element('p');
    title.append('No lookup of ', element('code', text), ' was recorded. ');
    place.replaceChildren(title);
    if (run.raw.byte_order) {
      const key = bytesOf(text);
      const within = [];
      for (const [number, level] of run.state(at).level) {
        const table = run.raw.tables[number];
        if (compare(bytesOf(run.key(table.first)), key) <= 0 && compare(key, bytesOf(run.key(table.last))) <= 0) within.push([level, number]);
      }
      within.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
      const names = within.map(([level, number]) => `${number} (level ${level})`).join(', ');
      place.append(element('p', within.length ? `At this step, a get would search the memtable and, until the key is found, ${within.length === 1 ? 'table' : 'tables'} ${names}.` : 'At this step, no table has it in its range.'));
    }
    const keys = [...new Set(run.gets.map((get) => run.key(run.steps[get].key)))];
    const like = keys.filter((key) => key.startsWith(text.slice(0, 2))).slice(0, 8);
    if (like.length) {
      place.append(element('p', 'Recorded lookups include:'));
      const also = element('div', undefined, 'also');
      for (const key of like) {
        const button = element('button', key);
        button.addEventListener('click', () => { byId('key').value = key; explain(key); });
        also.append(button);
      }
      place.append(also);
    }
  }

  function nextGet(direction, what = 'lookup', wanted = () => true) {
    const all = run.gets.filter((get) => wanted(run.steps[get]));
    const found = direction > 0 ? all.find((get) => get > at) : all.filter((get) => get < at).pop();
    pause();
    if (found !== undefined) {
      goTo(found);
      return;
    }
    const end = direction > 0 ? all[all.length - 1] : all[0];
    const where = direction > 0 ? ['later', 'last'] : ['earlier', 'first'];
    byId('hint').textContent = all.length
      ? `There is no ${where[0]} ${what}: the ${where[1]} of ${thousands(all.length)} is step ${thousands(end + 1)}.`
      : `The run has no ${what}.`;
  }

  /// Returns the first step that shows what the page is about: a lookup of an absent key that
  /// filters answer in several tables; or else the first work on tables; or else the last step.
  function firstSight() {
    const isWork = (step) => step.t === 'flushed' || step.t === 'compacted';
    const filters = (step) => step.path.filter((part) => part[0] === 'filter').length;
    const lookup = run.gets.find((get) => !run.steps[get].found && filters(run.steps[get]) > 1);
    const work = run.steps.findIndex(isWork);
    return lookup ?? (work < 0 ? run.steps.length - 1 : work);
  }

  function nextWork(direction) {
    const isWork = (step) => step.t === 'flushed' || step.t === 'compacted';
    let to = at + direction;
    while (to > 0 && to < run.steps.length - 1 && !isWork(run.steps[to])) to += direction;
    pause();
    goTo(to);
  }

  function choose(place) {
    pause();
    run = runs[place];
    at = firstSight();
    asked = null;
    untouched = true;
    byId('seek').max = run.steps.length;
    const known = [...new Set(run.gets.map((get) => run.key(run.steps[get].key)))];
    byId('known').replaceChildren(...known.slice(0, 2000).map((key) => {
      const option = element('option');
      option.value = key;
      return option;
    }));
    drawAll();
  }

  function drawAll() {
    readColours();
    drawTimeline();
    drawNow();
  }

  // Input of the user.

  byId('first').addEventListener('click', () => { pause(); goTo(0); });
  byId('last').addEventListener('click', () => { pause(); goTo(run.steps.length - 1); });
  byId('back').addEventListener('click', () => { pause(); goTo(at - 1); });
  byId('forth').addEventListener('click', () => { pause(); goTo(at + 1); });
  byId('play').addEventListener('click', toggle);
  byId('seek').addEventListener('input', (event) => { pause(); goTo(Number(event.target.value) - 1); });
  byId('run').addEventListener('change', (event) => choose(Number(event.target.value)));
  byId('prev-get').addEventListener('click', () => nextGet(-1));
  byId('next-get').addEventListener('click', () => nextGet(1));
  byId('next-bad').addEventListener('click', () => nextGet(1, 'false positive', hasFalsePositive));
  byId('ask').addEventListener('submit', (event) => { event.preventDefault(); explain(byId('key').value); });
  byId('list').addEventListener('toggle', () => showList(run.state(at)));
  document.addEventListener('scroll', (event) => { if (event.target.className?.includes('scroll')) showMore(event.target); }, true);
  window.addEventListener('resize', drawAll);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);

  const line = byId('line');
  const drag = (event) => {
    const x = event.clientX - line.getBoundingClientRect().left - timeline.from;
    pause();
    goTo(Math.round((x / (timeline.width - timeline.from)) * (run.steps.length - 1)));
  };
  line.addEventListener('pointerdown', (event) => { line.setPointerCapture(event.pointerId); drag(event); });
  line.addEventListener('pointermove', (event) => { if (event.buttons) drag(event); });

  const stage = byId('stage');
  stage.addEventListener('pointermove', (event) => {
    const area = stage.getBoundingClientRect();
    const [x, y] = [event.clientX - area.left, event.clientY - area.top];
    const box = boxes.find((b) => x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + b.h);
    const tip = byId('tip');
    tip.hidden = !box;
    if (!box) return;
    const table = run.raw.tables[box.number];
    const state = run.state(at);
    const entries = table.entries === null ? 'written by another process' : `${count(table.entries, 'entry', 'entries')}, ${count(table.tombstones, 'tombstone')}`;
    const filters = { block: 'block filters', table: 'table filter', both: 'block and table filters', none: 'no filters' }[table.filter] ?? 'filters unknown';
    tip.textContent = `Table ${box.number}, level ${box.level}, ${size(table.bytes)}\n${quoted(run.key(table.first))} to ${quoted(run.key(table.last))}\n${entries}; ${filters}\nmade ${count(at - state.born.get(box.number), 'step')} ago; ${count(state.heat.get(box.number) ?? 0, 'lookup')} searched it`;
    tip.style.left = `${Math.max(0, Math.min(area.width - 260, x + 12))}px`;
    tip.style.top = `${y + 14}px`;
  });
  stage.addEventListener('pointerleave', () => { byId('tip').hidden = true; });

  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const tag = event.target.tagName;
    if ((tag === 'INPUT' && event.target.type !== 'range') || tag === 'SELECT') return;
    const acts = {
      ArrowLeft: () => { pause(); goTo(at - 1); },
      ArrowRight: () => { pause(); goTo(at + 1); },
      Home: () => { pause(); goTo(0); },
      End: () => { pause(); goTo(run.steps.length - 1); },
      PageUp: () => nextWork(-1),
      PageDown: () => nextWork(1),
      '/': () => byId('key').focus(),
    };
    if (tag !== 'BUTTON' && tag !== 'SUMMARY') acts[' '] = toggle;
    if (acts[event.key]) {
      event.preventDefault();
      acts[event.key]();
    }
  });

  // The start: `#step=12`, `#key=apple` or `#play=fast` in the address chooses how the page begins,
  // and moves an open page.

  function follow() {
    let place = location.hash.slice(1);
    // A `%` that begins no escape stands for itself.
    try { place = decodeURIComponent(place); } catch { /* as it is */ }
    const [what, value] = place.split(/=(.*)/s);
    if (what === 'step') { pause(); goTo((Number(value) || 1) - 1); }
    if (what === 'key') { byId('key').value = value ?? ''; explain(value ?? ''); }
    if (what === 'play') {
      if (['slow', 'normal', 'fast'].includes(value)) byId('speed').value = value;
      play();
    }
  }

  document.querySelector('main').hidden = false;
  runs.forEach((each, i) => {
    const option = element('option', `${i + 1}: ${each.raw.path} (${count(each.steps.length, 'step')})`);
    option.value = i;
    byId('run').append(option);
  });
  byId('choose').hidden = runs.length < 2;
  byId('run').value = busiest;
  choose(busiest);
  follow();
  window.addEventListener('hashchange', follow);
})();

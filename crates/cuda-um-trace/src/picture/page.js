'use strict';
// Draws the timeline and the residency map. Items narrower than a pixel are collected in bins, so that the drawing time depends
// on pixels and not on records.
(() => {
  const root = document.documentElement;
  addEventListener('error', (event) => { root.dataset.error = event.message; });
  const data = JSON.parse(document.getElementById('data').textContent);
  const sum = (differences) => {
    const all = new Float64Array(differences.length);
    let at = 0;
    for (let i = 0; i < all.length; i++) all[i] = at += differences[i];
    return all;
  };
  const lanes = data.lanes.map((lane) => {
    const starts = sum(lane.starts), lengths = Float64Array.from(lane.lengths);
    let longest = 0, most = 0;
    for (let i = 0; i < lengths.length; i++) { longest = Math.max(longest, lengths[i]); most = Math.max(most, lane.amounts[i]); }
    return { ...lane, starts, lengths, longest, most, colours: Uint8Array.from(lane.colours) };
  });
  const maps = data.maps.map((map) => {
    const blocks = map.first.map((first) => ({ first, times: [], states: [] }));
    sum(map.times).forEach((time, i) => { const block = blocks[map.blocks[i]]; block.times.push(time); block.states.push(map.states[i]); });
    return { ...map, blocks, height: Math.max(22, Math.min(64, blocks.length * 6)) };
  });

  // ---- text
  const time = (ns) => {
    const us = ns / 1e3, digits = (v) => v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0);
    return ns === 0 ? '0' : us < 1 ? ns.toFixed(0) + ' ns' : us < 999.5 ? digits(us) + ' us' : us < 999500 ? digits(us / 1e3) + ' ms' : digits(us / 1e6) + ' s';
  };
  const bytes = (n) => {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let unit = 0;
    while (n >= 1023.95 && unit < 4) { n /= 1024; unit++; }
    return (unit === 0 ? n : n < 9.995 ? n.toFixed(2) : n < 99.95 ? n.toFixed(1) : n.toFixed(0)) + ' ' + units[unit];
  };

  // ---- view
  const LEFT = 132, RIGHT = 10, AXIS = 22, LANE = 24, GAP = 4, FONT = '12px system-ui, sans-serif';
  const end = data.end;
  let from = 0, until = end, pointer = null, queued = false;
  const timeline = document.getElementById('timeline'), residency = document.getElementById('residency');
  const style = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  let theme;
  const readTheme = () => {
    theme = Object.fromEntries(['ground', 'panel', 'line', 'text', 'dim', 'host', 'device', 'both', 'unknown'].map((n) => [n, style('--' + n)]));
    const host = rgb(theme.host), device = rgb(theme.device);
    theme.states = new Uint32Array(103);
    const pack = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
    for (let i = 0; i <= 100; i++) theme.states[i] = pack(host.map((h, c) => Math.round(h + (device[c] - h) * i / 100)));
    theme.states[101] = pack(rgb(theme.both));
    theme.states[102] = pack(rgb(theme.unknown));
  };
  const prepare = (canvas, height) => {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth;
    canvas.style.height = height + 'px';
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const to = canvas.getContext('2d');
    to.setTransform(ratio, 0, 0, ratio, 0, 0);
    to.fillStyle = theme.ground;
    to.fillRect(0, 0, width, height);
    to.font = FONT;
    to.textBaseline = 'middle';
    return [to, width];
  };
  const lower = (list, value) => {
    let low = 0, high = list.length;
    while (low < high) { const mid = (low + high) >> 1; if (list[mid] < value) low = mid + 1; else high = mid; }
    return low;
  };
  const plot = (width) => Math.max(50, width - LEFT - RIGHT);
  const x = (t, width) => LEFT + (t - from) / (until - from) * plot(width);
  const at = (px, width) => from + (px - LEFT) / plot(width) * (until - from);
  const ticks = (width) => {
    const rough = (until - from) / Math.max(2, plot(width) / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough), list = [];
    for (let t = Math.ceil(from / step) * step; t <= until; t += step) list.push(t);
    return list;
  };
  const fit = (to, text, width) => {
    if (to.measureText(text).width <= width) return text;
    while (text.length > 1 && to.measureText(text + '…').width > width) text = text.slice(0, -1);
    return text.length > 1 ? text + '…' : '';
  };
  const label = (to, text, y, colour) => {
    to.fillStyle = colour;
    to.textAlign = 'right';
    to.fillText(fit(to, text, LEFT - 16), LEFT - 8, y);
    to.textAlign = 'left';
  };
  const grid = (to, width, top, bottom, words) => {
    for (const t of ticks(width)) {
      const px = Math.round(x(t, width)) + 0.5;
      to.strokeStyle = theme.line;
      to.beginPath(); to.moveTo(px, top); to.lineTo(px, bottom); to.stroke();
      if (words) { to.fillStyle = theme.dim; to.textAlign = px > width - 45 ? 'right' : 'center'; to.fillText(time(t), px, AXIS / 2); to.textAlign = 'left'; }
    }
  };

  // ---- timeline
  const drawLane = (to, lane, top, width) => {
    const { starts, lengths, colours } = lane, right = LEFT + plot(width), height = LANE - GAP;
    const columns = Math.ceil(plot(width)), covered = new Map();
    let count = 0;
    const last = lower(starts, until);
    for (let i = lower(starts, from - lane.longest); i < last; i++) {
      const a = x(starts[i], width), b = x(starts[i] + lengths[i], width);
      if (b < LEFT) continue;
      count++;
      if (b - a < 1) {
        // A bin for each pixel and colour: the covered part, or the count.
        const column = Math.min(columns - 1, Math.max(0, Math.floor(a - LEFT)));
        let bins = covered.get(colours[i]);
        if (!bins) covered.set(colours[i], bins = new Float32Array(columns));
        bins[column] += Math.max(0.25, b - a);
        continue;
      }
      const left = Math.max(LEFT, a), size = Math.min(right, b) - left;
      to.fillStyle = data.colours[colours[i]];
      to.fillRect(left, top, Math.max(1, size - 0.5), height);
      if (size > 34) {
        to.fillStyle = colours[i] === 1 || colours[i] === 5 || colours[i] === 9 ? '#16181d' : '#ffffff';
        to.fillText(fit(to, data.texts[lane.labels[i]], size - 8), left + 4, top + height / 2 + 0.5);
      }
    }
    for (const [colour, bins] of covered) {
      to.fillStyle = data.colours[colour];
      for (let column = 0; column < columns; column++) {
        if (bins[column] > 0) {
          to.globalAlpha = Math.min(1, 0.45 + 0.55 * bins[column]);
          to.fillRect(LEFT + column, top, 1, height);
        }
      }
    }
    to.globalAlpha = 1;
    return count;
  };
  const drawTimeline = () => {
    const height = AXIS + lanes.length * LANE + 6, [to, width] = prepare(timeline, height);
    let count = 0;
    lanes.forEach((lane, i) => { if (i % 2 === 0) { to.fillStyle = theme.panel; to.fillRect(0, AXIS + i * LANE, width, LANE); } });
    grid(to, width, AXIS, height, true);
    lanes.forEach((lane, i) => {
      const top = AXIS + i * LANE + GAP / 2;
      label(to, lane.name, top + (LANE - GAP) / 2, theme.text);
      count += drawLane(to, lane, top, width);
    });
    cross(to, width, AXIS, height);
    return count;
  };
  const cross = (to, width, top, bottom) => {
    if (pointer === null || pointer < LEFT) return;
    to.strokeStyle = theme.dim;
    to.setLineDash([3, 3]);
    to.beginPath(); to.moveTo(pointer + 0.5, top); to.lineTo(pointer + 0.5, bottom); to.stroke();
    to.setLineDash([]);
  };

  // ---- residency
  const sheet = document.createElement('canvas');
  const drawMap = (to, map, top, width) => {
    const columns = Math.ceil(plot(width)), rows = map.blocks.length, step = (until - from) / columns;
    sheet.width = columns;
    sheet.height = rows;
    const surface = sheet.getContext('2d'), image = surface.createImageData(columns, rows), pixels = new Uint32Array(image.data.buffer);
    const born = Math.max(0, Math.floor((map.alive[0] - from) / step)), dead = Math.min(columns, Math.ceil((map.alive[1] - from) / step));
    map.blocks.forEach((block, row) => {
      let next = lower(block.times, from), state = next > 0 ? block.states[next - 1] : block.first;
      for (let column = born; column < dead; column++) {
        const now = from + (column + 1) * step;
        while (next < block.times.length && block.times[next] < now) state = block.states[next++];
        pixels[row * columns + column] = theme.states[state];
      }
    });
    surface.putImageData(image, 0, 0);
    to.imageSmoothingEnabled = false;
    to.drawImage(sheet, LEFT, top, plot(width), map.height);
    if (map.height / rows >= 4) {
      to.strokeStyle = theme.ground;
      to.globalAlpha = 0.5;
      to.lineWidth = 0.5;
      for (let row = 1; row < rows; row++) { const y = top + row * map.height / rows; to.beginPath(); to.moveTo(LEFT, y); to.lineTo(LEFT + plot(width), y); to.stroke(); }
      to.globalAlpha = 1;
      to.lineWidth = 1;
    }
    label(to, map.name, top + map.height / 2 - (map.height > 34 ? 7 : 0), theme.text);
    if (map.height > 34) label(to, bytes(map.bytes), top + map.height / 2 + 8, theme.dim);
  };
  const mapsTop = maps.reduce((list, map) => { list.push(list[list.length - 1] + map.height + 10); return list; }, [AXIS + 4]);
  const drawResidency = () => {
    const height = mapsTop[maps.length] + 2, [to, width] = prepare(residency, maps.length ? height : 40);
    if (!maps.length) { to.fillStyle = theme.dim; to.fillText('Nothing of any known buffer moved.', 14, 20); return; }
    grid(to, width, AXIS, height, true);
    maps.forEach((map, i) => drawMap(to, map, mapsTop[i], width));
    cross(to, width, AXIS, height);
  };

  const draw = () => {
    queued = false;
    const begin = performance.now(), count = drawTimeline();
    drawResidency();
    const took = performance.now() - begin;
    document.getElementById('drawn').textContent = count.toLocaleString('en') + ' items drawn in ' + took.toFixed(1) + ' ms';
    root.dataset.items = count;
    root.dataset.drawMs = took.toFixed(2);
  };
  const redraw = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };
  const show = (a, b) => {
    const size = Math.min(end, Math.max(20, b - a));
    from = Math.min(Math.max(0, a), end - size);
    until = from + size;
    redraw();
  };
  const zoom = (factor, centre) => show(centre - (centre - from) * factor, centre + (until - centre) * factor);

  // ---- item under the pointer
  const tip = document.getElementById('tip');
  const overTimeline = (px, py, width) => {
    const lane = lanes[Math.floor((py - AXIS) / LANE)];
    if (!lane || px < LEFT) return null;
    const now = at(px, width), slack = (until - from) / plot(width) * 3;
    let best = -1, distance = Infinity, many = 0;
    for (let i = lower(lane.starts, now - lane.longest - slack), last = lower(lane.starts, now + slack); i < last; i++) {
      const a = lane.starts[i], b = a + lane.lengths[i], away = now < a ? a - now : now > b ? now - b : 0;
      if (away > slack) continue;
      many++;
      if (away <= distance) { distance = away; best = i; }
    }
    if (best < 0) return null;
    const lines = [data.texts[lane.labels[best]]], detail = data.texts[lane.details[best]];
    if (lane.amounts[best]) lines[0] += lane.unit === 'bytes' ? ', ' + bytes(lane.amounts[best]) : ' × ' + lane.amounts[best];
    if (detail) lines.push(detail);
    lines.push('at ' + time(lane.starts[best]) + (lane.lengths[best] ? ', for ' + time(lane.lengths[best]) : ''));
    if (many > 1) lines.push('and ' + (many - 1) + ' more here');
    return lines.join('\n');
  };
  const overResidency = (px, py, width) => {
    const i = maps.findIndex((map, i) => py >= mapsTop[i] && py < mapsTop[i] + map.height), map = maps[i];
    if (!map || px < LEFT) return null;
    const now = at(px, width), row = Math.min(map.blocks.length - 1, Math.floor((py - mapsTop[i]) / map.height * map.blocks.length));
    if (now < map.alive[0] || now > map.alive[1]) return null;
    const block = map.blocks[row], next = lower(block.times, now), state = next > 0 ? block.states[next - 1] : block.first;
    const where = state === 102 ? 'not known where' : state === 101 ? 'on host and device' : state === 0 ? 'on the host' : state === 100 ? 'on a device' : state + ' % on a device';
    return map.name + '\nfrom ' + bytes(row * map.block) + ' to ' + bytes(Math.min(map.bytes, (row + 1) * map.block)) + ': ' + where + '\nat ' + time(now);
  };
  for (const [canvas, over] of [[timeline, overTimeline], [residency, overResidency]]) {
    let drag = null;
    const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top, canvas.clientWidth]; };
    canvas.addEventListener('pointerdown', (event) => { drag = [event.clientX, from, until]; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener('pointerup', () => { drag = null; });
    canvas.addEventListener('pointercancel', () => { drag = null; });
    canvas.addEventListener('pointermove', (event) => {
      const [px, py, width] = place(event);
      pointer = px;
      if (drag) { const by = (drag[0] - event.clientX) / plot(width) * (drag[2] - drag[1]); show(drag[1] + by, drag[2] + by); }
      const text = over(px, py, width);
      tip.hidden = !text;
      if (text) {
        tip.textContent = text;
        tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
        tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8) + 'px';
      }
      redraw();
    });
    canvas.addEventListener('pointerleave', () => { pointer = null; tip.hidden = true; redraw(); });
    canvas.addEventListener('dblclick', (event) => { const [px, , width] = place(event); zoom(0.4, at(px, width)); });
    canvas.addEventListener('wheel', (event) => {
      const [px, , width] = place(event);
      if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(Math.exp(event.deltaY * 0.004), at(px, width)); }
      else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); const by = event.deltaX / plot(width) * (until - from); show(from + by, until + by); }
    }, { passive: false });
    canvas.addEventListener('keydown', (event) => {
      const size = until - from, move = { ArrowLeft: -0.2, ArrowRight: 0.2 }[event.key];
      if (move) show(from + move * size, until + move * size);
      else if (event.key === '+' || event.key === '=') zoom(0.6, from + size / 2);
      else if (event.key === '-') zoom(1.6, from + size / 2);
      else if (event.key === '0') show(0, end);
      else return;
      event.preventDefault();
    });
  }
  document.getElementById('in').addEventListener('click', () => zoom(0.5, (from + until) / 2));
  document.getElementById('out').addEventListener('click', () => zoom(2, (from + until) / 2));
  document.getElementById('fit').addEventListener('click', () => show(0, end));
  const key = document.getElementById('key');
  const used = new Set();
  lanes.forEach((lane) => lane.colours.forEach((colour) => used.add(colour)));
  ['kernel', 'host access', 'call', 'asked for', 'page fault', 'around a fault', 'eviction', 'other', 'GPU faults', 'CPU faults'].forEach((name, colour) => {
    if (!used.has(colour)) return;
    const swatch = document.createElement('span');
    swatch.className = 'swatch';
    swatch.style.background = data.colours[colour];
    key.append(swatch, name);
  });
  const again = () => { readTheme(); draw(); };
  addEventListener('resize', redraw);
  addEventListener('beforeprint', again);
  addEventListener('afterprint', again);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
  again();
  root.dataset.rendered = 'yes';
})();

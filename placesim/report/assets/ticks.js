// The marks of an axis.

/** Numbers that are round, from 0 (or on a logarithmic scale between powers) to what is to be seen. */
function ticks(low, high, isLog, isBytes) {
  if (isLog) {
    const found = [];
    if (isBytes) {
      const first = Math.ceil(Math.log2(low));
      const step = Math.max(1, Math.ceil((Math.log2(high) - first) / 6));
      for (let power = first; 2 ** power <= high; power += step) found.push(2 ** power);
      return found;
    }
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const digit of high / low > 100 ? [1] : [1, 2, 5]) found.push(digit * 10 ** power);
    }
    return found.filter((tick) => tick >= low && tick <= high);
  }
  const base = isBytes ? 2 ** (10 * Math.floor(Math.log2(Math.max(high, 1)) / 10)) : 1;
  const rough = high / base / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = base * power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough);
  return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, i) => i * step);
}

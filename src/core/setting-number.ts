/** A number of a setting as people write it: `16`, `0.001`, `5e-7`, `1e20`. Parses to the same number, in TOML, JSON and on a command line. */
export function settingNumber(value: number): string {
  const [plain, short] = [String(value), value.toExponential().replace('e+', 'e')];
  const size = Math.abs(value);
  if (!Number.isFinite(value) || value === 0) return plain;
  // 1e-6 is easier to read than six zeros, and 100000000000000000000 cannot be counted.
  return size < 1e-3 || (size >= 1e6 && short.length < plain.length) ? short : plain;
}

/** A measured value with three digits, in the same style. */
export function figureText(value: number): string {
  return settingNumber(Number(value.toPrecision(3)));
}

/** A value of a setting on one line: JSON, but for numbers. */
export function settingValue(value: unknown): string {
  return typeof value === 'number' ? settingNumber(value) : JSON.stringify(value);
}

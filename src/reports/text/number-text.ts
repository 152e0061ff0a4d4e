/** Formats numbers for a terminal, without a locale, so that they are the same on every machine. */
import { countText } from '../../core/count-text.ts';

export { countText };

/** Three decimals below ten, fewer above, `3.12e+199` from a billion on; `–` for null. */
export function meanText(value: number | null): string {
  if (value === null) return '–';
  const size = Math.abs(value);
  if (size >= 1e9) return value.toExponential(2);
  return value.toFixed(size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0);
}

/** `0.240 to 0.371`; empty for an estimate without an interval. */
export function intervalText(estimate: { readonly low: number | null; readonly high: number | null } | null): string {
  return estimate === null || estimate.low === null || estimate.high === null ? '' : `${meanText(estimate.low)} to ${meanText(estimate.high)}`;
}

/** A value with at most six significant digits: `1.86`, `0.0525`, `1`. Sums of fractions would show up to 17. */
export function valueText(value: number): string {
  return String(Number(value.toPrecision(6)));
}

/** US dollars: `$12.34`, `$0.0521`, `$0.0000012`; `an unknown cost` for null. */
export function usdText(usd: number | null): string {
  if (usd === null) return 'an unknown cost';
  if (usd === 0) return '$0';
  return usd >= 1 ? `$${usd.toFixed(2)}` : usd >= 0.001 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(Math.min(12, 1 - Math.floor(Math.log10(usd))))}`;
}

/** `0.4 s`, `12 s`, `3 min 05 s`, `2 h 07 min`. */
export function durationText(seconds: number): string {
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const pad = (n: number) => String(n).padStart(2, '0');
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} min`;
}

/** `512 B`, `1.5 MB`, `12 GB`; a MB is 10⁶ bytes. */
export function bytesText(bytes: number): string {
  const power = bytes < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1000 ** power;
  return `${power === 0 || value >= 99.95 ? Math.round(value) : value.toFixed(1)} ${['B', 'kB', 'MB', 'GB', 'TB'][power]}`;
}

/** `1 row`, `5 rows`. */
export function plural(n: number, noun: string): string {
  return `${countText(n)} ${noun}${n === 1 ? '' : 's'}`;
}

/** Any magnitude in a few characters: `2.1e-6`, `0.0030`, `0.21`, `4.20`, `17.5`, `1,234`; `–` for null. */
export function figureText(value: number | null): string {
  if (value === null) return '–';
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size < 9.995e-4) return value.toExponential(1);
  if (size < 0.995) return value.toPrecision(2);
  if (size < 99.5) return value.toPrecision(3);
  return value < 0 ? `-${countText(size)}` : countText(size);
}

/** `completed 12, prompt_too_long 4`. */
export function tallyText(counts: Readonly<Record<string, number>>): string {
  const entries = Object.entries(counts);
  return entries.length === 0 ? 'nothing yet' : entries.map(([name, count]) => `${name} ${countText(count)}`).join(', ');
}

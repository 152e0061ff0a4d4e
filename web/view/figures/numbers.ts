/** The page's formats of numbers, times and durations. */

const COUNT = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** 12,345. */
export function formatCount(value: number): string {
  return COUNT.format(value);
}

/** Three decimals between 0 and 1, fewer for larger numbers, powers of ten for tiny and huge ones. */
export function formatNumber(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '\u2013';
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e9) return COUNT.format(value).replace('-', '\u2212');
  if (size !== 0 && (size < 0.0005 || size >= 1e9)) return value.toExponential(2).replace('e-', 'e\u2212').replace('-', '\u2212');
  const digits = size < 10 ? 3 : size < 100 ? 2 : size < 10_000 ? 1 : 0;
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace('-', '\u2212');
}

/** A reward always has three decimals, so that columns line up. */
export function formatReward(value: number | null | undefined): string {
  if (value === null || value === undefined) return '\u2013';
  return Math.abs(value) < 1e4 ? value.toFixed(3).replace('-', '\u2212') : formatNumber(value);
}

/** US dollars: `$12.34`, `$0.0521`, `$0.0000012`. */
export function formatUsd(usd: number): string {
  if (usd >= 1 || usd === 0) return `$${usd.toFixed(2)}`;
  return `$${usd.toFixed(usd >= 0.001 ? 4 : Math.min(12, 1 - Math.floor(Math.log10(usd))))}`;
}

/** With its sign, for differences. */
export function formatDifference(value: number | null): string {
  if (value === null) return '\u2013';
  return value > 0 ? `+${formatReward(value)}` : formatReward(value);
}

/** "3 minutes ago"; the date if it is more than a week. */
export function formatAgo(time: string | null, now: number): string {
  if (time === null) return '\u2013';
  const seconds = (now - Date.parse(time)) / 1000;
  if (Number.isNaN(seconds)) return '\u2013';
  if (seconds < 45) return 'now';
  for (const [size, unit] of [
    [3600, 'min'],
    [86_400, 'h'],
    [604_800, 'd'],
  ] as const)
    if (seconds < size) return `${Math.max(1, Math.round(seconds / (unit === 'min' ? 60 : unit === 'h' ? 3600 : 86_400)))} ${unit} ago`;
  return time.slice(0, 10);
}

/** "2026-11-26 20:14", in the reader's time zone. */
export function formatTime(time: string | null): string {
  const date = new Date(time ?? '');
  if (Number.isNaN(date.getTime())) return '\u2013';
  const two = (n: number) => String(n).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** 1.2 s, 3 min 20 s, 2 h 5 min. */
export function formatSeconds(seconds: number): string {
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

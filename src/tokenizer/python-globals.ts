/** The variables that templates have. */
import { spend } from './python-budget.ts';
import { strftime } from './python-values.ts';

/** Jinja's sandbox makes no longer ranges. */
const LONGEST_RANGE = 100_000;

/** Jinja's own. */
export const GLOBALS: Readonly<Record<string, unknown>> = {
  true: true,
  false: false,
  none: null,
  True: true,
  False: false,
  None: null,
  range: (...bounds: readonly unknown[]) => range(bounds),
};

/** Those that transformers gives the template of a chat. */
export const CHAT_GLOBALS: Readonly<Record<string, unknown>> = {
  ...GLOBALS,
  raise_exception: (message: unknown) => {
    throw new Error(String(message));
  },
  strftime_now: (format: string) => strftime(new Date(), format),
};

function range(bounds: readonly unknown[]): readonly number[] {
  if (bounds.length === 0 || bounds.length > 3 || !bounds.every(Number.isInteger)) throw new Error('range expected 1 to 3 integers');
  const [from, to, step = 1] = (bounds.length === 1 ? [0, ...bounds] : bounds) as readonly [number, number, number?];
  if (step === 0) throw new Error('range() arg 3 must not be zero');
  const length = Math.max(0, Math.ceil((to - from) / step));
  if (length > LONGEST_RANGE) throw new Error(`Range too big. The sandbox blocks ranges larger than MAX_RANGE (${LONGEST_RANGE}).`);
  spend(length);
  return Array.from({ length }, (_, i) => from + i * step);
}

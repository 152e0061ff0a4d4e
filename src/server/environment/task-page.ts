/** The rows of the served split, in pages. */
import { wireMessage } from '../../rollouts/message-columns.ts';
import { roleAndTask } from '../../rollouts/rollout-columns.ts';
import { EnvironmentRefusal } from './environment-refusal.ts';
import type { ServedEnvironment } from './served-environment.ts';

const DEFAULT_LIMIT = 1000;
const MOST = 10_000;
const KEYS = ['offset', 'limit'];

export function taskPage(
  { environment, split, rows }: Pick<ServedEnvironment, 'environment' | 'split' | 'rows'>,
  query: Readonly<Record<string, string>>,
) {
  const stranger = Object.keys(query).find((key) => !KEYS.includes(key));
  if (stranger !== undefined)
    throw new EnvironmentRefusal(422, `The parameter ${JSON.stringify(stranger)} is unknown. Known are ${KEYS.join(', ')}.`);
  const offset = wholeNumber('offset', query['offset'], { fallback: 0, most: Number.MAX_SAFE_INTEGER });
  const limit = wholeNumber('limit', query['limit'], { fallback: DEFAULT_LIMIT, most: MOST });
  const count = Math.max(0, Math.min(limit, rows.length - offset));
  const tasks = Array.from({ length: count }, (_, i) => taskOf(rows.at(offset + i)));
  return { env_id: environment.id, split, total: rows.length, metrics: environment.rubric.names, tasks };
}

export function taskOf(row: ReturnType<ServedEnvironment['rows']['at']>) {
  const { exampleId, prompt, answer, info } = row;
  return {
    example_id: exampleId,
    prompt: prompt.map(wireMessage),
    answer: answer ?? null,
    info: info ?? {},
    ...roleAndTask(row),
  };
}

function wholeNumber(name: string, value: string | undefined, { fallback, most }: { readonly fallback: number; readonly most: number }): number {
  if (value === undefined) return fallback;
  const number = /^\d{1,16}$/.test(value) ? Number(value) : NaN;
  if (number <= most) return number;
  throw new EnvironmentRefusal(422, `${name} is ${JSON.stringify(value.slice(0, 32))}. Send a whole number from 0 to ${most}.`);
}

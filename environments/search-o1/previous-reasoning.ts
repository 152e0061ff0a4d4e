/** The reasoning so far, in the form that a refiner sees (scripts/run_search_o1.py). */
import { BEGIN_SEARCH_QUERY, BEGIN_SEARCH_RESULT } from './markers.ts';

/** Steps at the end that are always shown; upstream counts an empty one behind them. */
const LAST_STEPS = 3;
const MOST_STEPS = 4;

/**
 * The lines of an episode's text as numbered steps. Of more than four steps, the first, the last three, and those with a query or a result are shown; `...`
 * stands for each run of others.
 * @param output everything after the prompt, results included
 */
export function previousReasoning(output: string): string {
  const lines = output.replaceAll('\n\n', '\n').split('\n');
  const isShown = (line: string, i: number) =>
    lines.length <= MOST_STEPS ||
    i === 0 ||
    i >= lines.length - LAST_STEPS ||
    line.includes(BEGIN_SEARCH_QUERY) ||
    line.includes(BEGIN_SEARCH_RESULT);
  const shown: string[] = [];
  for (const [i, line] of lines.entries()) {
    if (isShown(line, i)) shown.push(`Step ${i + 1}: ${line}`);
    else if (shown.at(-1) !== '...') shown.push('...');
  }
  return shown.join('\n\n');
}

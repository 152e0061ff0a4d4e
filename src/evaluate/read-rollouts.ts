import { ConfigError } from '../core/errors.ts';
import type { RolloutExport } from '../schemas/rollout-export.ts';
import { readLines } from '../files/json-lines.ts';

/** Yields the checked rollouts of an exported file. Throws ConfigError with the line number of an invalid one. */
export async function* readRollouts(path: string): AsyncGenerator<RolloutExport, void> {
  // Everything that imports the package would otherwise wait for the schemas to load.
  const [{ parseWire }, { exportProblem, RolloutExportSchema }] = await Promise.all([
    import('../schemas/results.ts'),
    import('../schemas/rollout-export.ts'),
  ]);
  for await (const { text, number } of readLines(path, { mustExist: true })) {
    const parsed = parseWire(RolloutExportSchema, text);
    const problem = 'problem' in parsed ? parsed.problem : exportProblem(parsed.value);
    if (problem !== null || !('value' in parsed)) throw new ConfigError(`Line ${number} of ${path} is not an exported rollout: ${problem}`);
    yield parsed.value;
  }
}

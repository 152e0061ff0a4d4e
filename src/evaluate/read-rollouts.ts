import { ConfigError } from '../core/errors.ts';
import { parseWire } from '../schemas/results.ts';
import { exportProblem, type RolloutExport, RolloutExportSchema } from '../schemas/rollout-export.ts';
import { userTextLines } from '../files/user-lines.ts';

/** Yields the checked rollouts of an exported file. Throws ConfigError with the line number of an invalid one. */
export async function* readRollouts(path: string): AsyncGenerator<RolloutExport, void> {
  for await (const { text, number } of userTextLines(path, { remedy: 'name one that vf-export wrote' })) {
    const parsed = parseWire(RolloutExportSchema, text);
    const problem = 'problem' in parsed ? parsed.problem : exportProblem(parsed.value);
    if (problem !== null || !('value' in parsed))
      throw new ConfigError(`Line ${number} of ${path} is not an exported rollout: ${problem}. Give lines that vf-export wrote.`);
    yield parsed.value;
  }
}

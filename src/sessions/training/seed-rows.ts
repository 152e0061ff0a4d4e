/**
 * The supervised rows that `sft.problems` stands for: worked problems of LIMO's shape, written as `vf-seed` writes them into the run's folder. A resumed run reads
 * them from there, so that a data set that has changed since changes nothing.
 */
import { existsSync } from 'node:fs';
import { looksLikePath } from '../../data/find-rows.ts';
import { findSeedRows, problemsText, readSeedRows } from '../../data/read-seed-rows.ts';
import { ANSWER_WEIGHT } from '../../data/seed-row.ts';
import { replaceFile } from '../../files/json-lines.ts';
import { plural } from '../../reports/text/number-text.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { OpenTrainingOptions } from './open-training.ts';

const OPTIONS = { form: 'tags', answerWeight: ANSWER_WEIGHT, measure: null, mostTokens: Infinity } as const;

/** Reads the problems of a file, without writing anything; those of the hub are not downloaded. Throws ConfigError for a file that cannot be read or has no usable row. */
export async function checkSeedRows(
  { sft: { problems } }: TrainingConfig,
  { variables, signal }: Pick<OpenTrainingOptions, 'variables' | 'signal'>,
): Promise<void> {
  if (problems === null || !looksLikePath(problems)) return;
  const found = await findSeedRows({ data: problems, split: 'train', env: variables, signal });
  await readSeedRows(found, OPTIONS, { signal, write: async () => {} });
}

/** The configuration with these rows among those of `sft.data`. Throws ConfigError for data that cannot be read. */
export async function withSeedRows({
  config,
  directory,
  variables,
  note,
  signal,
}: Pick<OpenTrainingOptions, 'config' | 'directory' | 'variables' | 'note' | 'signal'>): Promise<TrainingConfig> {
  const { sft } = config;
  if (sft.problems === null) return config;
  const path = directory.paths.seedRows;
  if (!existsSync(path)) {
    const found = await findSeedRows({ data: sft.problems, split: 'train', env: variables, signal });
    await replaceFile(path, async (write) => {
      const { written, skipped, problems } = await readSeedRows(found, OPTIONS, {
        signal,
        write: (row) => write(Buffer.from(`${JSON.stringify(row)}\n`)),
      });
      const left = skipped === 0 ? '' : `; left out: ${plural(skipped, 'unusable line')}: ${problemsText(skipped, problems)}`;
      note(
        `${plural(written, 'worked problem')} of ${found.file} for ${plural(sft.steps!, 'supervised step')} before the first step on rollouts${left}`,
      );
    });
  }
  return { ...config, sft: { ...sft, data: [...(sft.data === null ? [] : [sft.data].flat()), path] } };
}

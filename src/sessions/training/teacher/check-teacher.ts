/** What can be said of the teacher of `[algorithm.teacher]` before anything is started: its files, its vocabulary, and the text before its prompt. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../../../core/environment.ts';
import { ConfigError } from '../../../core/errors.ts';
import { trainingRows } from '../../../core/training-rows.ts';
import { modelFacts } from '../../../files/model-facts.ts';
import type { TrainingConfig } from '../../../schemas/training-config.ts';
import { checkModel } from '../../engine/open-engine.ts';
import { localTokenizerHash } from '../../policy/local-tokenizer-hash.ts';
import { modelFolder } from '../../policy/model-folder.ts';
import { remoteAdapterProblem } from '../../policy/remote-adapter-problem.ts';
import { filledTemplate } from './privileged-prompt.ts';

export interface TeacherCheck {
  readonly environment: Environment;
  readonly variables: Readonly<Record<string, string | undefined>>;
}

/** Throws ConfigError for a teacher that cannot score this run's tokens. */
export async function checkTeacher(config: TrainingConfig, { environment, variables }: TeacherCheck): Promise<void> {
  const { teacher } = config.algorithm;
  if (teacher === null) return;
  const { kind, adapter, privileged } = teacher;
  if (kind === 'embedded') {
    const student = modelFolder(config.model.path, variables);
    const path = teacherFolder(config, variables);
    await checkModel(path);
    if (path !== student) await assertSameTokens(path, student);
  }
  if (adapter !== null && !existsSync(join(adapter, 'adapter_config.json')))
    throw new ConfigError(
      remoteAdapterProblem(adapter) ??
        `algorithm.teacher.adapter ${adapter} is no PEFT directory: it has no adapter_config.json. Name the folder of an adapter`,
    );
  const rows = trainingRows(environment);
  if (privileged === null || rows === null) return;
  for (const row of rows) if (filledTemplate(privileged, row) !== null) return;
  throw new ConfigError(
    `No row of ${rows.name} has everything that algorithm.teacher.privileged names: ${JSON.stringify(privileged)}. Name a field that its rows have, as {answer} or {info.NAME}`,
  );
}

/** The directory of the embedded teacher: the policy's own base, if none is named. */
export function teacherFolder({ algorithm: { teacher }, model }: TrainingConfig, variables: TeacherCheck['variables']): string {
  return modelFolder(teacher?.path ?? model.path, variables);
}

/** Throws ConfigError unless two models on this machine have the same vocabulary. */
async function assertSameTokens(teacher: string, student: string): Promise<void> {
  const [theirs, own] = [modelFacts(teacher).vocabularySize, modelFacts(student).vocabularySize];
  if (theirs !== own) throw strangeTokens(teacher, student, `${theirs} tokens in place of ${own}`);
  await assertSameIds(teacher, await localTokenizerHash(teacher), student);
}

/** Throws ConfigError unless the same text has the same ids in both. @param teacherHash of its tokenizer; null if that is unknown */
export async function assertSameIds(teacher: string, teacherHash: string | null, student: string): Promise<void> {
  const hash = await localTokenizerHash(student);
  if (hash === null)
    throw new ConfigError(
      `The tokenizer of ${student} is not on this machine, so that nobody knows whether the teacher ${teacher} has the same. Name a folder with its tokenizer.json as model.path`,
    );
  if (hash !== teacherHash) throw strangeTokens(teacher, student, 'the same text has other ids');
}

function strangeTokens(teacher: string, student: string, how: string): ConfigError {
  return new ConfigError(
    `The teacher ${teacher} has another vocabulary than the policy ${student} (${how}), so that its log-probs are of other tokens. Name a teacher with the policy's tokenizer in algorithm.teacher`,
  );
}

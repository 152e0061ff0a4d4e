/** Opens the teacher of `[algorithm.teacher]`, which `checkTeacher` has checked. */
import { probePolicy } from '../../../clients/vllm-probe.ts';
import type { Disposers } from '../../../core/disposers.ts';
import type { Environment } from '../../../core/environment.ts';
import { CancelledError, ConfigError, thrownText } from '../../../core/errors.ts';
import { Random } from '../../../core/random.ts';
import type { TrainingConfig } from '../../../schemas/training-config.ts';
import { openLocalTokenizer } from '../../../tokenizer/local-tokenizer.ts';
import type { Teacher, TokenScorer } from '../../../trainer/teacher.ts';
import { openEngine } from '../../engine/open-engine.ts';
import { modelFolder } from '../../policy/model-folder.ts';
import { secretsOf } from '../../policy/secrets.ts';
import { assertSameIds, teacherFolder } from './check-teacher.ts';
import { EngineScorer } from './engine-scorer.ts';
import { privilegedPrompt } from './privileged-prompt.ts';
import { openTinkerScorer } from './open-tinker-scorer.ts';
import { ServerScorer } from './server-scorer.ts';

export interface TeacherOptions {
  readonly config: TrainingConfig;
  readonly environment: Environment;
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Collects values that must not be written or shown. */
  readonly secrets: Set<string>;
  readonly note: (line: string) => void;
  readonly signal: AbortSignal;
}

export type TeacherSettings = NonNullable<TrainingConfig['algorithm']['teacher']>;

/** The name of the adapter in the teacher's own engine. */
const ADAPTER = 'teacher';
/** All sequences of a step wait at once. */
const MOST_PENDING = 2 ** 20;

/** Null without a teacher. What it opens ends with `opened`. @throws {ConfigError} for a server that does not fit the policy, and for an adapter of another base */
export async function openTeacher(options: TeacherOptions, opened: Disposers): Promise<Teacher | null> {
  const { config, environment, variables } = options;
  const { teacher } = config.algorithm;
  if (teacher === null) return null;
  const scorer = await openScorer(teacher, options, opened);
  if (teacher.privileged === null) return { scorer };
  const tokenizer = await openLocalTokenizer(modelFolder(config.model.path, variables));
  return { scorer, promptOf: privilegedPrompt({ template: teacher.privileged, environment, tokenizer }) };
}

async function openScorer(teacher: TeacherSettings, options: TeacherOptions, opened: Disposers): Promise<Teacher['scorer']> {
  if (teacher.kind === 'self') return 'on';
  if (teacher.kind === 'start') return 'initial';
  const open = { embedded: embeddedScorer, server: serverScorer, tinker: openTinkerScorer }[teacher.kind];
  return open(teacher, options, opened);
}

async function embeddedScorer({ adapter }: TeacherSettings, { config, variables, signal }: TeacherOptions, opened: Disposers): Promise<TokenScorer> {
  const modelPath = teacherFolder(config, variables);
  const threads = config.backend.threads ?? config.policy.embedded?.threads ?? null;
  const engine = await openEngine({ modelPath, maxPending: MOST_PENDING, ...(threads === null ? {} : { threads }), signal });
  opened.defer(() => engine.close());
  if (adapter === null) return new EngineScorer(engine, null);
  try {
    await engine.loadAdapter({ name: ADAPTER, directory: adapter, signal });
  } catch (cause) {
    if (cause instanceof CancelledError) throw cause;
    throw new ConfigError(`algorithm.teacher.adapter ${adapter} is not a PEFT adapter of ${modelPath}: ${thrownText(cause)}`, { cause });
  }
  return new EngineScorer(engine, ADAPTER);
}

async function serverScorer(teacher: TeacherSettings, options: TeacherOptions, opened: Disposers): Promise<TokenScorer> {
  const { variables, secrets, signal, config } = options;
  const { model, apiKeyVar, maxConcurrent, maxRetries, timeoutS } = teacher;
  const baseUrl = teacher.baseUrl!;
  const apiKey = apiKeyVar === null ? null : (variables[apiKeyVar] ?? '');
  if (apiKey === '')
    throw new ConfigError(`The environment variable ${apiKeyVar} holds no API key; set it or leave algorithm.teacher.api_key_var out`);
  for (const secret of secretsOf({ servers: [{ apiKey, headers: {}, baseUrls: [baseUrl] }] })) secrets.add(secret);
  const server = { baseUrl, maxRetries, timeoutMs: timeoutS * 1000, ...(apiKey === null ? {} : { apiKey }) };
  const named = apiKeyVar === null ? {} : { apiKeyVariable: apiKeyVar };
  const probe = await probePolicy({ ...server, ...named, keySetting: 'algorithm.teacher.api_key_var', model, signal });
  if (probe.kind !== 'tokens')
    throw new ConfigError(
      `The teacher ${probe.model} takes no token ids (${probe.chatOnlyBecause}), so that it cannot score the policy's tokens. Serve it with vLLM or vf-serve policy`,
    );
  await assertSameIds(probe.model, probe.tokenizerHash, modelFolder(config.model.path, variables));
  const random = Random.fromSeed(config.seed).fork('teacher');
  const scorer = new ServerScorer({ ...server, model: probe.model, maxModelLen: probe.maxModelLen, maxConcurrent, random });
  opened.defer(() => scorer.close());
  return scorer;
}

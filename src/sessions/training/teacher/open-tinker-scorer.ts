/** Opens a teacher at a service that speaks the Tinker API, and tries it before anything is sampled. */
import type { Disposers } from '../../../core/disposers.ts';
import { ConfigError, PolicyError } from '../../../core/errors.ts';
import { modelFacts } from '../../../files/model-facts.ts';
import { PassDialect } from '../../../tinker/service/pass-dialect.ts';
import { SamplingSession } from '../../../tinker/service/sampling-session.ts';
import type { SampledWeights } from '../../../tinker/service/service-session.ts';
import { TinkerError } from '../../../tinker/service/tinker-error.ts';
import type { TokenScorer } from '../../../trainer/teacher.ts';
import { modelFolder } from '../../policy/model-folder.ts';
import { connectTinker, type TinkerPlace } from '../connect-tinker.ts';
import type { TeacherOptions, TeacherSettings } from './open-teacher.ts';
import { TinkerScorer } from './tinker-scorer.ts';

/** What it opens ends with `opened`, its session at the service too. Throws ConfigError for a service that does not have the weights, or returns no log-probs of prompts. */
export async function openTinkerScorer(teacher: TeacherSettings, options: TeacherOptions, opened: Disposers): Promise<TokenScorer> {
  const { config, variables, note, signal } = options;
  const connection = opened.use(await connectTinker(placeOf(teacher, options), options));
  const sampling = opened.use(new SamplingSession({ connection, dialect: new PassDialect('auto') }));
  const model = teacher.model!;
  const weights = model.startsWith('tinker://') ? { path: model } : { baseModel: model };
  await assertScores(sampling, weights, signal);
  if (model !== config.backend.model)
    note(
      `${connection.url} does not say which tokenizer the teacher ${model} has, so that nothing here can compare it with the policy's: it must be the same`,
    );
  const maxModelLen = modelFacts(modelFolder(config.model.path, variables)).contextLength;
  return new TinkerScorer({ sampling, weights, maxModelLen, maxConcurrent: teacher.maxConcurrent });
}

/** The service that trains, unless the teacher's own is named. A key goes to no other service than its own. */
function placeOf({ baseUrl, apiKeyVar, timeoutS }: TeacherSettings, { config: { backend } }: TeacherOptions): TinkerPlace {
  const isTrainer = baseUrl === null && backend.kind === 'tinker';
  return {
    table: 'algorithm.teacher',
    baseUrl: isTrainer ? backend.baseUrl : baseUrl,
    apiKeyVar: apiKeyVar ?? (isTrainer ? backend.apiKeyVar : 'TINKER_API_KEY'),
    timeoutS,
  };
}

async function assertScores(sampling: SamplingSession, weights: SampledWeights, signal: AbortSignal): Promise<void> {
  const name = 'path' in weights ? weights.path : weights.baseModel;
  const asked = { weights, prompt: Int32Array.of(0, 1), maxTokens: 1, temperature: 1, hasPromptLogProbs: true, signal };
  const { promptLogProbs } = await sampling.sample(asked).catch((cause: unknown) => {
    if (!(cause instanceof TinkerError)) throw cause;
    const { message, status, isGone } = cause;
    if (isGone || (status !== null && status >= 400 && status < 500))
      throw new ConfigError(`${sampling.url} does not score tokens by the teacher ${name}: ${message}. Correct algorithm.teacher.model`, { cause });
    throw new PolicyError(`The teacher ${name} does not answer: ${message}`, { cause });
  });
  if (promptLogProbs === null)
    throw new ConfigError(`${sampling.url} returns no log-probs of prompts, so that it cannot be a teacher; use a service that does`);
}

/** The service of a run that trains through the Tinker API: its connection, its sampler, and the tokenizer on this machine. */
import { join } from 'node:path';
import type { PolicyProbe } from '../../clients/vllm-probe.ts';
import { Disposers } from '../../core/disposers.ts';
import { PolicyError, PolicyKeyError } from '../../core/errors.ts';
import { jsonObjectAt } from '../../files/json-file.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { PassDialect } from '../../tinker/service/pass-dialect.ts';
import { SamplingSession } from '../../tinker/service/sampling-session.ts';
import type { ServiceConnection } from '../../tinker/service/service-connection.ts';
import { TinkerError } from '../../tinker/service/tinker-error.ts';
import { type LocalTokenizer, openLocalTokenizer } from '../../tokenizer/local-tokenizer.ts';
import { templateTraits } from '../../tokenizer/template-traits.ts';
import { localTokenizerHash } from '../policy/local-tokenizer-hash.ts';
import { connectTinker, type TinkerCaller } from './connect-tinker.ts';

export interface TinkerService extends AsyncDisposable {
  readonly connection: ServiceConnection;
  readonly dialect: PassDialect;
  readonly sampling: SamplingSession;
  readonly tokenizer: LocalTokenizer;
  readonly endIds: readonly number[];
  /** The service's name of the base. */
  readonly baseModel: string;
  readonly probe: PolicyProbe;
}

export interface TinkerServiceOptions extends TinkerCaller {
  readonly config: Pick<TrainingConfig, 'backend' | 'model'>;
}

/** Throws ConfigError without a key for the hosted service, without a tokenizer, and for a refused key; PolicyError if the service does not answer. */
export async function openTinkerService({ config, ...caller }: TinkerServiceOptions): Promise<TinkerService> {
  const { backend, model } = config;
  const tokenizer = await openLocalTokenizer(model.path);
  const traits = await templateTraits(tokenizer);
  const tokenizerHash = await localTokenizerHash(model.path);
  await using opened = new Disposers();
  const connection = opened.use(await connectTinker({ ...backend, table: 'backend' }, caller));
  const dialect = new PassDialect(backend.wire);
  const sampling = opened.use(new SamplingSession({ connection, dialect }));
  const baseModel = backend.model ?? model.path;
  const parts = opened.move();
  return {
    connection,
    dialect,
    sampling,
    tokenizer,
    endIds: endIdsOf(model.path),
    baseModel,
    probe: {
      kind: 'tokens',
      model: baseModel,
      maxModelLen: modelFacts(model.path).contextLength,
      tokenizerHash,
      logProbsMode: 'raw',
      hasChatTemplate: traits.chatTemplate === 'model',
      chatOnlyBecause: null,
      ...traits,
    },
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

/** The tokens that end a text, by the model's two files. */
function endIdsOf(directory: string): number[] {
  const of = (file: string) => [fieldsOf(jsonObjectAt(join(directory, file)))['eos_token_id'] ?? []].flat();
  const found = [...of('config.json'), ...of('generation_config.json')].filter((id): id is number => Number.isSafeInteger(id));
  return [...new Set(found)];
}

/** Waits until the service answers, for half an hour. */
export async function reviveTinker({ connection }: Pick<TinkerService, 'connection'>, signal: AbortSignal): Promise<void> {
  try {
    await connection.request({ route: 'healthz', signal });
  } catch (error) {
    if (!(error instanceof TinkerError)) throw error;
    // Not every server has the route; one that says so answers.
    if (error.status === 404) return;
    const Failure = error.status === 401 || error.status === 403 ? PolicyKeyError : PolicyError;
    throw new Failure(`${error.message}. Restart the service. If the run has ended, continue it with -R.`, { cause: error });
  }
}

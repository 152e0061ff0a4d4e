/** The service of a run that trains through the Tinker API: its connection, its sampler, and the tokenizer on this machine. */
import { join } from 'node:path';
import type { PolicyProbe } from '../../clients/vllm-probe.ts';
import { Disposers } from '../../core/disposers.ts';
import { ConfigError, PolicyError, PolicyKeyError } from '../../core/errors.ts';
import { jsonObjectAt } from '../../files/json-file.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { PassDialect } from '../../tinker/service/pass-dialect.ts';
import { SamplingSession } from '../../tinker/service/sampling-session.ts';
import { ServiceConnection } from '../../tinker/service/service-connection.ts';
import { TinkerError } from '../../tinker/service/tinker-error.ts';
import { type LocalTokenizer, openLocalTokenizer } from '../../tokenizer/local-tokenizer.ts';
import { templateTraits } from '../../tokenizer/template-traits.ts';
import { localTokenizerHash } from '../policy/local-tokenizer-hash.ts';

const HOSTED_TINKER = 'https://tinker.thinkingmachines.dev/services/tinker-prod';
/** Sent where a service needs no key: a header cannot be empty. */
const NO_KEY = 'none';

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

export interface TinkerServiceOptions {
  readonly config: Pick<TrainingConfig, 'backend' | 'model'>;
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly secrets: Set<string>;
  readonly note: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Throws ConfigError without a key for the hosted service, without a tokenizer, and for a refused key; PolicyError if the service does not answer. */
export async function openTinkerService({ config, variables, secrets, note, signal }: TinkerServiceOptions): Promise<TinkerService> {
  const { backend, model } = config;
  const { baseUrl, apiKeyVar } = backend;
  const given = variables[apiKeyVar];
  if (!given && baseUrl === null)
    throw new ConfigError(
      `The environment variable ${apiKeyVar} holds no API key of the hosted Tinker; set it, or set backend.base_url to a server of your own, such as vf-serve tinker or SkyRL`,
    );
  if (given) secrets.add(given);
  const tokenizer = await openLocalTokenizer(model.path);
  const traits = await templateTraits(tokenizer);
  const tokenizerHash = await localTokenizerHash(model.path);
  await using opened = new Disposers();
  const options = { baseUrl: baseUrl ?? HOSTED_TINKER, apiKey: given ?? NO_KEY, resultMs: backend.timeoutS * 1000, onNotice: note };
  const connection = opened.use(
    await ServiceConnection.open(options, signal).catch((error: unknown) => Promise.reject(startFailure(error, apiKeyVar))),
  );
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

function startFailure(error: unknown, apiKeyVar: string): unknown {
  if (!(error instanceof TinkerError)) return error;
  if (error.status === 401 || error.status === 403) return new ConfigError(`${error.message} in ${apiKeyVar}`, { cause: error });
  const { status } = error;
  return new PolicyError(`${error.message}; check backend.base_url, and that the service runs`, {
    cause: error,
    ...(status === null ? {} : { status }),
  });
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

/** Opens a session of a run that trains through the Tinker API: one service samples, trains and keeps the weights. */
import { PolicyVersions } from '../../clients/policy-versions.ts';
import { TinkerTokensClient } from '../../clients/tinker-tokens.ts';
import { Disposers } from '../../core/disposers.ts';
import { ConfigError } from '../../core/errors.ts';
import { modelFacts } from '../../files/model-facts.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { ServiceModel } from '../../tinker/service/service-model.ts';
import { type NewModel, ServiceSession } from '../../tinker/service/service-session.ts';
import { TinkerError } from '../../tinker/service/tinker-error.ts';
import type { AdapterDescription } from '../../trainer/gradient-backend.ts';
import { calibrateReduction } from '../../trainer/gradients/tinker/calibrate-reduction.ts';
import { TinkerBackend } from '../../trainer/gradients/tinker/tinker-backend.ts';
import { TinkerReference } from '../../trainer/gradients/tinker/tinker-reference.ts';
import { TinkerPublisher } from '../../trainer/publisher/tinker-publisher.ts';
import type { TrainingSession } from '../../trainer/training-session.ts';
import type { TinkerService } from './tinker-service.ts';

export interface TinkerSessionOptions {
  readonly config: TrainingConfig;
  readonly service: TinkerService;
  /** Unique to the session. */
  readonly name: string;
  readonly note: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Throws ConfigError if the service has another base, or combines losses in a way that is neither known nor found out. */
export async function openTinkerSession({ config, service, name, note, signal }: TinkerSessionOptions): Promise<TrainingSession> {
  const { connection, dialect, sampling, baseModel, probe, tokenizer, endIds } = service;
  const { backend: settings, lora, seed } = config;
  await using opened = new Disposers();
  const session = opened.use(await ServiceSession.open({ connection, dialect, signal }));
  const asked: NewModel = { baseModel, rank: lora.rank, seed, layers: layersOf(lora.targets) };
  const model = await newModel(session, asked, signal);
  // Another one is needed as the reference in any case, and steps at learning rate 0 leave it as it is.
  const untrained = settings.reduction === 'auto' ? await session.createModel({ ...asked, rank: 1 }, signal) : null;
  const reduction = settings.reduction === 'auto' ? await calibrateReduction(untrained!, signal) : settings.reduction;
  if (settings.reduction === 'auto')
    note(`${connection.url} combines the losses of sequences by their ${reduction}, as two steps at learning rate 0 show`);
  const backend = new TinkerBackend({
    session,
    model,
    reference: new TinkerReference({ session, sampling, model: asked, initial: null, untrained }),
    adapter: adapterOf(config, { baseModel, alpha: model.alpha ?? lora.alpha, vocabularySize: tokenizer.vocabularySize }),
    reduction,
    padTo: settings.padTo,
    ttlHours: settings.ttlHours,
    name,
  });
  opened.defer(() => backend.close());
  const versions = new PolicyVersions({ version: 0, model: baseModel });
  const { model: _, hasChatTemplate: __, chatOnlyBecause: ___, kind: ____, ...capabilities } = probe;
  const client = new TinkerTokensClient({ sampling, versions, capabilities, tokenizer, endIds, baseModel });
  opened.defer(() => client.close());
  const publisher = new TinkerPublisher({ sampling, versions, baseModel });
  const parts = opened.move();
  return { backend, client, versions, publisher, name, [Symbol.asyncDispose]: () => parts.disposeAsync() };
}

/** Throws ConfigError for another base than the one asked for, which some servers train without a word, and for another alpha. */
async function newModel(session: ServiceSession, asked: NewModel, signal: AbortSignal): Promise<ServiceModel> {
  const model = await session.createModel(asked, signal).catch((error: unknown) => {
    if (!(error instanceof TinkerError) || error.status === null || error.status >= 500) throw error;
    throw new ConfigError(`The training service opens no model of ${asked.baseModel} with rank ${asked.rank}: ${error.message}`, { cause: error });
  });
  if (model.baseModel !== null && model.baseModel !== asked.baseModel)
    throw new ConfigError(
      `The training service has the base ${model.baseModel}, but this run is of ${asked.baseModel}; set backend.model to the service's name of the base`,
    );
  if (model.alpha !== null && model.alpha !== ALPHA)
    throw new ConfigError(`The training service uses alpha ${model.alpha}, but this package knows services with ${ALPHA} only; use another service`);
  return model;
}

const ALPHA = 32;

function layersOf(targets: readonly string[]): NewModel['layers'] {
  return { attention: targets.includes('q_proj'), mlp: targets.includes('gate_proj'), unembedding: false };
}

/** The sizes of its layers are the service's business. */
function adapterOf(
  { lora, model }: TrainingConfig,
  { baseModel, alpha, vocabularySize }: { readonly baseModel: string; readonly alpha: number; readonly vocabularySize: number },
): AdapterDescription {
  const layers = modelFacts(model.path).layers ?? 0;
  const place = (target: string) => (['q_proj', 'k_proj', 'v_proj', 'o_proj'].includes(target) ? 'self_attn' : 'mlp');
  const modules = Array.from({ length: layers }, (_, layer) =>
    lora.targets.map((target) => ({ path: `model.layers.${layer}.${place(target)}.${target}`, inFeatures: 0, outFeatures: 0 })),
  ).flat();
  return { rank: lora.rank, alpha, baseModel, modules, vocabularySize };
}

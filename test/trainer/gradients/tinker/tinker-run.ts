/** The Tinker backend over a training service on loopback, and the embedded backend with the same adapter. */
import { PassDialect, type WireName } from '../../../../src/tinker/service/pass-dialect.ts';
import { SamplingSession } from '../../../../src/tinker/service/sampling-session.ts';
import { ServiceConnection } from '../../../../src/tinker/service/service-connection.ts';
import { ServiceSession } from '../../../../src/tinker/service/service-session.ts';
import type { Reduction } from '../../../../src/trainer/gradients/tinker/calibrate-reduction.ts';
import { TinkerBackend } from '../../../../src/trainer/gradients/tinker/tinker-backend.ts';
import { TinkerReference } from '../../../../src/trainer/gradients/tinker/tinker-reference.ts';
import { modelFacts } from '../../../../src/files/model-facts.ts';
import { NANO_BASE } from '../embedded/nano-adapter.ts';

const { signal } = new AbortController();
const MODEL = { baseModel: 'base', rank: 3, seed: 5, layers: { attention: true, mlp: true, unembedding: false } };

export interface TinkerRun extends AsyncDisposable {
  readonly backend: TinkerBackend;
  readonly sampling: SamplingSession;
  readonly session: ServiceSession;
  readonly notices: readonly string[];
}

export interface TinkerRunOptions {
  readonly reduction: Reduction;
  readonly wire?: WireName;
  readonly padTo?: number;
  readonly ttlHours?: number;
  /** @default 'base' */
  readonly baseModel?: string;
}

export async function openTinker(
  baseUrl: string,
  { reduction, wire = 'auto', padTo = 1, ttlHours, baseModel = 'base' }: TinkerRunOptions,
): Promise<TinkerRun> {
  const notices: string[] = [];
  const connection = await ServiceConnection.open({ baseUrl, apiKey: 'tml-x', patienceMs: 2000, onNotice: (line) => notices.push(line) }, signal);
  const dialect = new PassDialect(wire);
  const session = await ServiceSession.open({ connection, dialect, signal });
  const sampling = new SamplingSession({ connection, dialect });
  const asked = { ...MODEL, baseModel };
  const model = await session.createModel(asked, signal);
  const backend = new TinkerBackend({
    session,
    model,
    reference: new TinkerReference({ session, sampling, model: asked, initial: null, untrained: null }),
    adapter: { rank: 3, alpha: 32, baseModel, modules: [], vocabularySize: modelFacts(NANO_BASE).vocabularySize! },
    reduction,
    padTo,
    ttlHours: ttlHours ?? null,
    name: 'run.1',
  });
  return {
    backend,
    sampling,
    session,
    notices,
    async [Symbol.asyncDispose]() {
      await backend.close();
      await sampling[Symbol.asyncDispose]();
      await connection[Symbol.asyncDispose]();
    },
  };
}

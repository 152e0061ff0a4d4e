import { basename, relative, resolve } from 'node:path';
import { countText } from '../../core/count-text.ts';
import { ConfigError, describeError, type VfError } from '../../core/errors.ts';
import { modelPath as modelPathOf } from '../../data/bundled-models.ts';
import { cachedHubId } from '../../engine/adapters/base-name.ts';
import { EngineInputError, MemoryLimitError } from '../../engine/engine-errors.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';
import { isLoopback } from '../../server/listen.ts';
import { startTinkerServer } from '../../server/tinker/start-tinker-server.ts';
import { openEmbeddedCompute } from '../../serving/tinker/embedded-compute.ts';
import { addressNotice, engineThreads } from '../../sessions/engine/address-notice.ts';
import { cacheProblem } from '../../sessions/engine/cache-problem.ts';
import { keepHeapSmall } from '../../sessions/engine/spare-memory.ts';
import { localModel } from '../../sessions/policy/local-model.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { failureNotes, readKey, serveUntilStopped } from './serving.ts';
import type { TinkerOptions } from './tinker-command.ts';

/** Time for running requests to finish after Ctrl-C; a second Ctrl-C ends them. */
const GRACE_MS = 30_000;

/** Serves until the process is asked to stop. The first line on stdout is the base URL, printed once the server answers. */
export async function serveTinker(options: TinkerOptions, context: CommandContext): Promise<number> {
  const { host, port, state, maxModels, maxLoraRank, maxPending, servedModelName = [] } = options;
  const apiKey = readKey(options.apiKeyVar, context);
  const notice = addressNotice(engineThreads(options));
  if (notice !== null) context.note(`vf-serve: ${notice}`);
  const asked = options.model ?? 'nano-base';
  const modelPath = resolve(modelPathOf(await localModel(asked, context)));
  const compute = await open(options, modelPath, context);
  const hub = cachedHubId(modelPath);
  const baseNames = [...new Set([...servedModelName, hub ?? basename(modelPath), modelPath, asked])];
  const onFailure = failureNotes(context);
  const server = await startTinkerServer({
    compute,
    baseNames,
    state: resolve(state),
    host,
    port,
    apiKey,
    maxModels,
    maxPending,
    onFailure,
    maxRank: maxLoraRank,
  }).catch(async (error: unknown) => {
    await compute.close();
    throw error;
  });
  keepHeapSmall();
  try {
    if (!isLoopback(host)) {
      const access = apiKey === null ? 'no API key is required (--api-key-var)' : 'the API key is required';
      context.note(`vf-serve: listening on ${host}: other machines can send requests; ${access}`);
    }
    const about = `serving the Tinker API of ${relative('', modelPath) || '.'} as ${baseNames[0]}, ${countText(compute.maxModelLen)} tokens; ${compute.description}; checkpoints in ${state}`;
    const lost = await Promise.race([compute.lost, serveUntilStopped({ address: server.url, about, ending: 'finishing requests' }, context)]);
    if (lost === null) return EXIT.done;
    context.note(
      `vf-serve: the engine stopped: ${escapeControls(describeError(lost))}; start the server again, and clients load their last checkpoints`,
    );
    return EXIT.failed;
  } finally {
    await server.close({ graceMs: GRACE_MS });
  }
}

async function open(options: TinkerOptions, modelPath: string, context: CommandContext) {
  const { threads, maxModelLen, cacheTokens, maxPending } = options;
  const engine = {
    modelPath,
    maxPending,
    signal: context.signal,
    ...(threads === undefined ? {} : { threads }),
    ...(maxModelLen === undefined ? {} : { maxModelLen }),
    ...(cacheTokens === undefined ? {} : { cacheTokens }),
  };
  try {
    return await openEmbeddedCompute(engine);
  } catch (error) {
    const isOfTheCommand = error instanceof EngineInputError || error instanceof MemoryLimitError;
    const problem = isOfTheCommand ? await cacheProblem(error, engine, '--cache-tokens') : null;
    if (problem !== null) throw new ConfigError(problem, { cause: error });
    throw isOfTheCommand ? new ConfigError((error as VfError).message, { cause: error }) : error;
  }
}

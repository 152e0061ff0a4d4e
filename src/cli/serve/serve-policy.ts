import { join, relative, resolve } from 'node:path';
import { countText } from '../../core/count-text.ts';
import { ConfigError, describeError, type VfError } from '../../core/errors.ts';
import { packageRoot, packageVersion } from '../../data/package-root.ts';
import { EngineInputError, MemoryLimitError } from '../../engine/engine-errors.ts';
import { readingError } from '../../files/place-error.ts';
import { readUserTextSync } from '../../files/user-text.ts';
import { isLoopback } from '../../server/listen.ts';
import { type PolicyServer, startPolicyServer } from '../../server/policy/start-policy-server.ts';
import { modelPath as modelPathOf } from '../../data/bundled-models.ts';
import { cachedHubId } from '../../engine/adapters/base-name.ts';
import { otherBaseNotice } from '../../sessions/policy/adapter-of-another-base.ts';
import { localModel } from '../../sessions/policy/local-model.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { addressNotice, engineThreads } from '../../sessions/engine/address-notice.ts';
import { cacheProblem } from '../../sessions/engine/cache-problem.ts';
import { keepHeapSmall } from '../../sessions/engine/spare-memory.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';
import type { PolicyOptions } from './policy-command.ts';
import { failureNotes, readKey, serveUntilStopped } from './serving.ts';
import { statIfThere } from '../../files/regular-file.ts';

/** Time for pending requests to finish after Ctrl-C; a second Ctrl-C ends them. */
const GRACE_MS = 30_000;

/** Serves until the process is asked to stop. The first line on stdout is the base URL, printed once the server answers. */
export async function servePolicy(options: PolicyOptions, context: CommandContext): Promise<number> {
  const adapters = (options.adapter ?? []).map(parseAdapter);
  const apiKey = readKey(options.apiKeyVar, context);
  for (const place of options.allowAdaptersUnder ?? []) checkPlace(place, context);
  const notice = addressNotice(engineThreads(options));
  if (notice !== null) context.note(`vf-serve: ${notice}`);
  const server = await start(options, apiKey, context);
  keepHeapSmall();
  try {
    for (const adapter of adapters) await loadAdapter(server, adapter, context);
    for (const { directory } of adapters) await noteOtherBase(directory, server.engine.config.path, context);
    warnIfExposed(options, apiKey, context);
    const serving = { address: `${server.url}/v1`, about: introduction(options, server), ending: 'finishing pending requests' };
    const lost = await Promise.race([server.engine.lost, serveUntilStopped(serving, context)]);
    if (lost === null) return EXIT.done;
    context.note(`vf-serve: the engine stopped: ${escapeControls(describeError(lost))}; start the server again`);
    return EXIT.failed;
  } finally {
    await server.close({ graceMs: GRACE_MS });
  }
}

async function noteOtherBase(adapter: string, model: string, context: CommandContext): Promise<string | null> {
  const notice = await otherBaseNotice(adapter, model, process.env);
  if (notice !== null) context.note(`vf-serve: ${escapeControls(notice)}`);
  return notice;
}

/** The folder may be created later, because each request checks it. */
function checkPlace(place: string, context: CommandContext): void {
  const found = statIfThere(place);
  if (found?.isDirectory() === true) return;
  if (found !== undefined) throw new ConfigError(`--allow-adapters-under must name a folder, but ${place} is not one`);
  context.note(`vf-serve: --allow-adapters-under ${escapeControls(place)} does not exist yet; adapters can be loaded from it once it does`);
}

async function start(options: PolicyOptions, apiKey: string | null, context: CommandContext): Promise<PolicyServer> {
  const { host, port, threads, maxModelLen, cacheTokens, maxPending, maxLoraRank, maxAdapters, servedModelName, generationConfig, logprobsMode } =
    options;
  const modelPath = options.model === undefined ? bundledModel() : resolve(modelPathOf(await localModel(options.model, context)));
  const hubName = cachedHubId(modelPath)?.split('/').at(-1);
  const servedName = servedModelName ?? hubName;
  const open = {
    modelPath,
    ...(options.chatTemplate === undefined ? {} : { chatTemplate: readChatTemplate(options.chatTemplate) }),
    maxPending,
    signal: context.signal,
    ...(threads === undefined ? {} : { threads }),
    ...(maxModelLen === undefined ? {} : { maxModelLen }),
    ...(cacheTokens === undefined ? {} : { cacheTokens }),
  };
  try {
    return await startPolicyServer({
      open,
      host,
      port,
      apiKey,
      maxLoraRank,
      maxAdapters,
      adapterNotice: (directory) => noteOtherBase(directory, modelPath, context),
      generationConfig,
      logProbsMode: logprobsMode === 'raw_logprobs' ? 'raw' : 'processed',
      version: packageVersion(),
      ...(servedName === undefined ? {} : { servedName }),
      ...(options.allowAdaptersUnder === undefined ? {} : { allowAdaptersUnder: options.allowAdaptersUnder.map((path) => resolve(path)) }),
      onFailure: failureNotes(context),
    });
  } catch (error) {
    const problem = error instanceof EngineInputError || error instanceof MemoryLimitError ? await cacheProblem(error, open, '--cache-tokens') : null;
    throw problem === null ? asConfigError(error) : new ConfigError(problem, { cause: error });
  }
}

function readChatTemplate(path: string): string {
  try {
    return readUserTextSync(path);
  } catch (cause) {
    throw readingError(cause, { what: 'the file of --chat-template', path });
  }
}

interface NamedAdapter {
  readonly name: string;
  readonly directory: string;
}

function parseAdapter(text: string): NamedAdapter {
  const at = text.indexOf('=');
  if (at <= 0 || at === text.length - 1) throw new ConfigError(`--adapter must be NAME=DIRECTORY, got ${text}`);
  return { name: text.slice(0, at), directory: resolve(text.slice(at + 1)) };
}

async function loadAdapter({ engine, servedName }: PolicyServer, { name, directory }: NamedAdapter, { signal }: CommandContext): Promise<void> {
  if (name === servedName) throw new ConfigError(`--adapter cannot have the model's own name, ${name}; choose another`);
  try {
    await engine.loadAdapter({ name, directory, signal });
  } catch (error) {
    throw asConfigError(error);
  }
}

function warnIfExposed({ host, allowAdaptersUnder }: PolicyOptions, apiKey: string | null, context: CommandContext): void {
  if (isLoopback(host)) return;
  const access = apiKey === null ? 'no API key is required (--api-key-var)' : 'the API key is required';
  context.note(`vf-serve: listening on ${host}: other machines can send requests; ${access}`);
  if (allowAdaptersUnder === undefined) context.note('vf-serve: requests cannot load adapters; --allow-adapters-under DIR allows those in DIR');
}

function introduction({ model, adapter = [] }: PolicyOptions, { engine, servedName }: PolicyServer): string {
  const source =
    model === undefined ? 'the bundled model (a toy of 1 M parameters that knows the Search-R1 protocol)' : relative('', engine.config.path) || '.';
  const adapters = adapter.length === 0 ? '' : `, ${adapter.length} ${adapter.length === 1 ? 'adapter' : 'adapters'}`;
  return `serving ${source} as ${servedName}${adapters}, ${countText(engine.maxModelLen)} tokens; ${engine.description}`;
}

function bundledModel(): string {
  return join(packageRoot(), 'models', 'nano-base');
}

/** An invalid model, adapter or size is an error of the command line. */
function asConfigError(error: unknown): unknown {
  const isOfTheCommand = error instanceof EngineInputError || error instanceof MemoryLimitError;
  return isOfTheCommand ? new ConfigError((error as VfError).message, { cause: error }) : error;
}

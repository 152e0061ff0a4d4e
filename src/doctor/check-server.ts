/** Checks a running policy server: that it answers, returns token ids and log-probs, and accepts adapters of the run's rank. Changes nothing in it. */
import { type PolicyProbe, probePolicy } from '../clients/vllm-probe.ts';
import type { Environment } from '../core/environment.ts';
import { ConfigError, PolicyError, PolicyKeyError, TimeoutError, VfError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { askAdapterRoutes } from '../launch/adapter-routes.ts';
import { ServerHealth } from '../launch/server-health.ts';
import { vllmCommand } from '../launch/vllm-flags.ts';
import { assertPlayable, showsImages } from '../rollouts/assert-playable.ts';
import { HttpEndpoint, type HttpResponse } from '../transport/http-endpoint.ts';
import { proxyFor } from '../transport/proxy.ts';
import { transportSettings } from '../transport/transport-settings.ts';
import { withRetries } from '../transport/retry.ts';
import { isLoopback } from '../server/listen.ts';
import { countText, plural } from '../reports/text/number-text.ts';
import { shellCommand } from '../reports/text/own-command.ts';
import { assertChangesInFlight } from '../sessions/training/check-policy-server.ts';
import { smallWindow } from '../sessions/training/prompt-findings.ts';
import type { DoctorTarget } from './doctor-target.ts';
import { type Finding, missing, ok, refusal, skipped, warning } from '../sessions/finding.ts';
import { firstNames } from '../core/first-names.ts';
import { serverRoot } from '../core/server-url.ts';

export interface ServerCheckOptions {
  readonly target: DoctorTarget;
  readonly baseUrl: string;
  /** Tokens of the longest rollout; null without an environment. */
  readonly contextTokens: number | null;
  /** The requirements of the environment for the policy; null without an environment. */
  readonly played: Pick<Environment, 'id' | 'turnFormat' | 'needs'> | null;
  /** Context window of the base model; null if its config.json is not here. */
  readonly modelWindow: number | null;
  /** Share of the GPU for a server next to the worker; null if unknown. */
  readonly gpuShare: number | null;
  /** The longest wait for one answer, in milliseconds. @default 120000, because the first completion of a fresh server can take many seconds */
  readonly answerMs?: number;
  readonly signal: AbortSignal;
}

export interface ServerCheck {
  readonly findings: readonly Finding[];
  /** What the server said of itself; null if it does not answer or refuses. */
  readonly probe: PolicyProbe | null;
}

/** Short, because the user waits for the result. */
const REACH_MS = 10_000;
const ANSWER_MS = 120_000;

/** Checks all replicas at once. One that does not answer is only a warning if enough others do. */
export async function checkServers(baseUrls: readonly string[], options: Omit<ServerCheckOptions, 'baseUrl'>): Promise<ServerCheck> {
  const checks = await Promise.all(baseUrls.map((baseUrl) => checkServer({ ...options, baseUrl })));
  const answered = checks.filter(({ probe }) => probe !== null);
  const isEnough = answered.length >= (options.target.config?.publish.quorum ?? baseUrls.length);
  const findings = checks.flatMap((check) =>
    check.probe === null && isEnough ? check.findings.map((finding): Finding => ({ ...finding, state: 'warning' })) : check.findings,
  );
  return { findings, probe: answered[0]?.probe ?? null };
}

export async function checkServer(options: ServerCheckOptions): Promise<ServerCheck> {
  const { baseUrl, target, signal, answerMs = ANSWER_MS } = options;
  const health = new ServerHealth({ baseUrl, ...(target.apiKey === undefined ? {} : { apiKey: target.apiKey }) });
  const remedy = serveCommand(options);
  const proxy = proxyFor(new URL(baseUrl), transportSettings().variables);
  const through = proxy === null ? '' : `, through the proxy ${proxy.text}`;
  let reached: string | null = null;
  try {
    const once = { signal, deadlineMs: REACH_MS, maxRetries: 0 };
    await health.wait(once);
    const names = await health.models(once);
    const key = target.keyVariable === null ? '' : `, with the key of ${target.keyVariable}`;
    reached = `${health.url} serves ${firstNames(names, 5)}${through}${key}`;
    const probe = await probePolicy({
      baseUrl,
      model: target.config?.policy.model ?? null,
      timeoutMs: answerMs,
      maxRetries: 0,
      images: showsImages(options.played ?? {}),
      signal,
      ...(target.apiKey === undefined ? {} : { apiKey: target.apiKey }),
    });
    const findings = [ok('server', reached), ...tokenFindings(probe, options, remedy), ...(await loraFindings(probe, options, remedy))];
    return { findings, probe };
  } catch (error) {
    const failure = unlessStopped(error, signal);
    if (reached !== null && failure instanceof TimeoutError) {
      const slow = `tokens, window and adapters were not checked, because a completion took more than ${answerMs / 1000} s`;
      return {
        findings: [ok('server', reached), warning('tokens', slow, 'ask again: only the first completion of a server is that slow')],
        probe: null,
      };
    }
    const isRefused = [401, 402, 403].includes(failure.status ?? 0) && !(failure instanceof PolicyKeyError);
    const finding = isRefused ? refusal('server', failure.message) : missing('server', failure.message, serverRemedy(failure, target, remedy));
    return { findings: [finding], probe: null };
  } finally {
    await health.close();
  }
}

function serverRemedy(failure: VfError, { keyVariable }: DoctorTarget, start: string): string {
  if (failure instanceof ConfigError) return "set [policy].model to the server's name for the base model";
  if (failure instanceof PolicyKeyError)
    return keyVariable === null ? 'name the variable that holds the API key: -k VAR, or [policy].api_key_var' : `check the key in ${keyVariable}`;
  return failure.status === null ? start : "see the server's log";
}

function tokenFindings(probe: PolicyProbe, { target, contextTokens, played }: ServerCheckOptions, remedy: string): Finding[] {
  if (probe.kind === 'chat') return [missing('tokens', `only chat works: ${probe.chatOnlyBecause}`, remedy)];
  const tokens = ok('tokens', `ids and log-probs (${probe.logProbsMode})`);
  const findings: Finding[] = [tokens];
  if (played !== null) findings.push(...playedFindings(probe, played, remedy));
  if (target.temperature !== 1 && probe.logProbsMode === 'raw') {
    findings.push(missing('log-probs', `computed before temperature scaling, but the temperature is ${target.temperature}`, remedy));
  }
  const maxTokens = target.config?.rollouts.maxTokens ?? null;
  if (maxTokens !== null && maxTokens >= (probe.maxModelLen ?? Infinity)) {
    findings.push(
      missing(
        'window',
        `${countText(probe.maxModelLen!)} tokens for prompt and generation; rollouts.max_tokens alone is ${countText(maxTokens)}`,
        remedy,
      ),
    );
  } else if (contextTokens !== null && probe.maxModelLen !== null) {
    const small = smallWindow(probe.maxModelLen, contextTokens);
    const fits = `${countText(probe.maxModelLen)} tokens; the environment's longest rollout needs ${countText(contextTokens)}`;
    findings.push(small === null ? ok('window', fits) : warning('window', small, remedy));
  }
  return findings;
}

/** The environment's needs beyond token ids: turns of a chat, tools, images. */
export function playedFindings(
  probe: PolicyProbe,
  played: NonNullable<ServerCheckOptions['played']>,
  remedy = 'serve a model that can, or evaluate another environment',
): Finding[] {
  const { needs = [] } = played;
  const images = showsImages(played) ? [imageFinding(probe, remedy)] : [];
  try {
    assertPlayable({ ...played, needs: needs.filter((need) => need !== 'images') }, { name: probe.model, capabilities: probe });
    return images;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [missing('chat', error.message, remedy), ...images];
  }
}

/** Episodes of a few turns show about this many. */
const FEW_IMAGES = 8;

function imageFinding({ imageTokens = null, blindBecause = null }: PolicyProbe, remedy: string): Finding {
  if (imageTokens === null) return missing('images', `the environment shows images, but the server ${blindBecause}`, remedy);
  const { unit, minPixels, maxPixels, maxPerPrompt } = imageTokens;
  const most = maxPerPrompt === null ? 'any number' : `at most ${maxPerPrompt}`;
  const text = `${countText(minPixels)} to ${countText(maxPixels)} pixels, ${unit} × ${unit} a token, ${most} in a prompt`;
  if (maxPerPrompt === null || maxPerPrompt >= FEW_IMAGES) return ok('images', text);
  return warning('images', `${text}: a rollout that shows more fails`, remedy);
}

async function loraFindings(
  { kind }: PolicyProbe,
  { baseUrl, target, answerMs = ANSWER_MS, signal }: ServerCheckOptions,
  remedy: string,
): Promise<Finding[]> {
  const endpoint = new HttpEndpoint({
    baseUrl: serverRoot(baseUrl),
    headers: target.apiKey === undefined ? {} : { authorization: `Bearer ${target.apiKey}` },
    connections: 1,
    makeError: (message, errorOptions) => new PolicyError(message, errorOptions),
  });
  const asking = { signal, timeoutMs: answerMs, maxRetries: 0, random: Random.fromSeed(0) };
  try {
    const routes = await askAdapterRoutes(endpoint, asking);
    if (routes.kind === 'missing') {
      // A server that serves only chat may not be vLLM.
      const why = kind === 'tokens' ? 'was started without VLLM_ALLOW_RUNTIME_LORA_UPDATING=1' : 'has no route for it';
      return [missing('adapters', `cannot be loaded at run time: the server ${why}`, remedy)];
    }
    if (routes.kind === 'disabled') return [missing('adapters', 'the server has LoRA routes, but was started without --enable-lora', remedy)];
    if (routes.kind === 'unknown') return [warning('adapters', routes.text, remedy)];
    // The answer takes seconds, because the server collects facts about its machine; a server without this route answers at once.
    const info = await withRetries(
      (attempt) => endpoint.request({ method: 'GET', path: '/server_info?config_format=json', signal: attempt }),
      asking,
    ).catch((error: unknown) => unlessStopped(error, signal));
    const inFlight =
      target.config?.publish.inFlight === true ? [await inFlightFinding({ baseUrl, apiKey: target.apiKey ?? null, remedy }, signal)] : [];
    return [ok('adapters', 'can be loaded at run time'), limitFinding(info, target, remedy), ...inFlight];
  } catch (error) {
    const { message } = unlessStopped(error, signal);
    return [warning('adapters', `unknown: ${message}`, "see the server's log, then run vf-doctor again")];
  } finally {
    await endpoint.close();
  }
}

async function inFlightFinding(
  { baseUrl, apiKey, remedy }: { readonly baseUrl: string; readonly apiKey: string | null; readonly remedy: string },
  signal: AbortSignal,
): Promise<Finding> {
  try {
    await assertChangesInFlight({ baseUrls: [baseUrl], apiKey }, signal);
    return ok('in flight', 'weights can change during a generation');
  } catch (error) {
    return missing('in flight', unlessStopped(error, signal).message, remedy);
  }
}

/** Returns a failure of the server; rethrows anything else. */
function unlessStopped(error: unknown, signal: AbortSignal): VfError {
  if (!(error instanceof VfError) || signal.aborted) throw error;
  return error;
}

function limitFinding(info: HttpResponse | VfError, { loraRank, maxStaleness }: DoctorTarget, remedy: string): Finding {
  const limits = !(info instanceof VfError) && info.status === 200 ? loraLimits(info.body.toString('utf8')) : null;
  const needed = `the run needs rank ${loraRank}, ${plural(maxStaleness + 2, 'adapter')} at once`;
  if (limits === null) return skipped('limits', `unknown: only a server with VLLM_SERVER_DEV_MODE=1 reports them; ${needed}`);
  const text = `rank up to ${limits.rank}, ${plural(limits.adapters, 'adapter')} at once; ${needed}`;
  if (limits.rank < loraRank) return missing('limits', text, remedy);
  return limits.adapters > maxStaleness + 1 ? ok('limits', text) : warning('limits', `${text}: requests of different versions take turns`, remedy);
}

function loraLimits(body: string): { readonly rank: number; readonly adapters: number } | null {
  try {
    const { vllm_config: config } = JSON.parse(body) as { vllm_config?: { lora_config?: { max_lora_rank?: unknown; max_loras?: unknown } | null } };
    const { max_lora_rank: rank, max_loras: adapters } = config?.lora_config ?? {};
    return typeof rank === 'number' && typeof adapters === 'number' ? { rank, adapters } : null;
  } catch {
    // Another release's format: its limits are unknown.
    return null;
  }
}

/** The command that starts a suitable server, as a user would type it. It names the key's variable, never its value. */
function serveCommand({ target, baseUrl, contextTokens, modelWindow, gpuShare, played }: ServerCheckOptions): string {
  const { loraRank, maxStaleness, temperature, config, keyVariable } = target;
  const modelPath = config?.model.path ?? 'MODEL';
  const url = URL.parse(baseUrl);
  const needs = {
    modelPath,
    servedName: config?.policy.model ?? modelPath,
    loraRank,
    maxStaleness,
    temperature,
    port: Number(url?.port || 8000),
    maxModelLen: contextTokens === null ? null : Math.min(contextTokens, modelWindow ?? contextTokens),
    // On another machine the GPUs are unknown.
    gpuShare: isLoopback(url?.hostname ?? '') ? gpuShare : null,
    sleeps: false,
    showsImages: showsImages(played ?? {}),
    changesInFlight: config?.publish.inFlight ?? false,
    apiKey: '',
    args: [],
    env: {},
  };
  const { args } = vllmCommand(needs, { isCpuBuild: false, isLocalModel: false, cores: 1, baseEnv: {} });
  const left = isLoopback(url?.hostname ?? '') ? /^--(model|disable-uvicorn-access-log)\b/ : /^--(model|host|disable-uvicorn-access-log)\b/;
  const flags = args.filter((arg) => arg.startsWith('--') && !left.test(arg));
  const key = keyVariable === null ? '' : `VLLM_API_KEY="$${keyVariable}" `;
  const variables = ['VLLM_ALLOW_RUNTIME_LORA_UPDATING=1', ...(needs.changesInFlight ? ['VLLM_SERVER_DEV_MODE=1'] : [])];
  return `${key}${shellCommand([...variables, 'vllm', 'serve', modelPath, ...flags])}`;
}

/** Checks that the run's environment loads, with its rows and passages, and that its retrieval server answers. */
import type { Environment } from '../core/environment.ts';
import { VfError } from '../core/errors.ts';
import type { RoleDeclarations } from '../core/model.ts';
import { trainingRows } from '../core/training-rows.ts';
import { factOf, factsIfLoaded } from '../registry/environment-facts.ts';
import { loadEnvironment } from '../registry/load-environment.ts';
import { WEB_PROVIDERS } from '../registry/open-web-search.ts';
import { HttpRetriever } from '../retrieval/http-retriever.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import { countText, plural } from '../reports/text/number-text.ts';
import { assertTrainable } from '../sessions/training/assert-trainable.ts';
import { evaluatedRows } from '../reports/training/evaluation-label.ts';
import { ownCommand } from '../reports/text/own-command.ts';
import { checkAgent } from './check-agent.ts';
import { checkRoles } from './check-roles.ts';
import { type Finding, missing, ok, warning } from '../sessions/finding.ts';

export interface EnvironmentCheck {
  readonly findings: readonly Finding[];
  /** Tokens of the longest rollout; null if the environment sets no limit. */
  readonly contextTokens: number | null;
  /** The requirements of the environment for a policy; null if it does not load. */
  readonly played: Pick<Environment, 'id' | 'turnFormat' | 'needs'> | null;
}

export interface EnvironmentCheckOptions {
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

const SEARCH_MS = 30_000;

export async function checkEnvironment(config: TrainingConfig, options: EnvironmentCheckOptions): Promise<EnvironmentCheck> {
  const { args, evalArgs } = config.environment;
  const training = await load(config, args, 'training', options);
  const separate = Object.keys(evalArgs).length > 0;
  const held = separate ? await load(config, { ...args, ...evalArgs }, 'evaluation', { ...options, training: training.loaded }) : null;
  const findings = [training.finding, ...(held === null ? [] : [held.finding]), ...training.dryRollout];
  const roles = { ...held?.roles, ...training.roles };
  // If an environment does not load, its roles are unknown.
  if (training.played !== null) findings.push(...(await checkRoles(roles, config.roles, options)));
  const url = args['retriever_url'] ?? args['retrieverUrl'];
  if (typeof url === 'string') findings.push(await retrieverFinding(url, args['dataset'], options.signal));
  else findings.push(...(await corpusFindings(config.environment)));
  return { findings, contextTokens: training.contextTokens, played: training.played };
}

interface LoadedCheck extends Pick<EnvironmentCheck, 'contextTokens' | 'played'> {
  readonly finding: Finding;
  /** Of a dry rollout; none but for an agent that is trained. */
  readonly dryRollout: readonly Finding[];
  readonly roles: RoleDeclarations;
  /** Closed: only its rows may be read. Null if it does not load. */
  readonly loaded: Environment | null;
}

async function load(
  config: TrainingConfig,
  args: Readonly<Record<string, unknown>>,
  purpose: 'training' | 'evaluation',
  { variables, signal, training = null }: EnvironmentCheckOptions & { readonly training?: Environment | null },
): Promise<LoadedCheck> {
  const name = purpose === 'training' ? 'environment' : 'evaluation';
  const { id } = config.environment;
  try {
    const loaded = await loadEnvironment(id, args, { env: variables, signal, purpose });
    const { limits, turnFormat, needs = [], roles = {} } = loaded;
    const problem = purpose === 'training' ? await assertTrainable(loaded, config).catch((error: unknown) => error) : undefined;
    const dryRollout = purpose === 'training' && problem === undefined ? await checkAgent(loaded, signal) : [];
    await loaded.close();
    if (problem !== undefined) throw problem;
    const played = evaluatedText(training ?? loaded, loaded, config);
    const rows = purpose === 'evaluation' ? played : `${plural(trainingRows(loaded)?.length ?? 0, 'row')} to train on`;
    const both = purpose === 'evaluation' || Object.keys(config.environment.evalArgs).length > 0 ? rows : `${rows}, ${played}`;
    // The last generation starts from the longest context.
    const longest = limits.contextTokens + limits.responseTokens;
    return {
      finding: ok(name, `${id}: ${both}`),
      dryRollout,
      contextTokens: Number.isFinite(longest) ? longest : null,
      played: { id, turnFormat, needs },
      roles,
      loaded,
    };
  } catch (error) {
    if (!(error instanceof VfError) || signal.aborted) throw error;
    const key = (WEB_PROVIDERS as readonly unknown[]).includes(args['engine']) ? 'export the variable or put it in ./.env; else ' : '';
    const remedy = `${key}fix [environment] in the configuration; test it with vf-eval and the same id and arguments`;
    return { finding: missing(name, error.message, remedy), dryRollout: [], contextTokens: null, played: null, roles: {}, loaded: null };
  }
}

/** `50 held out`, or how many of them are trained on. */
function evaluatedText(environment: Environment, { eval: rows }: Environment, { evaluation }: TrainingConfig): string {
  const { notice } = evaluatedRows(environment, { eval: rows }, evaluation.examples);
  return notice === null ? `${countText(rows.length)} held out` : `${countText(rows.length)} for evaluation. ${notice.replace(/\.$/, '')}`;
}

async function retrieverFinding(url: string, dataset: unknown, signal: AbortSignal): Promise<Finding> {
  try {
    // No retries, because a user is waiting.
    const retriever = new HttpRetriever({ url, maxRetries: 0, timeoutMs: SEARCH_MS });
    try {
      const [passages = []] = await retriever.search(['capital of France'], {
        topk: 3,
        signal: AbortSignal.any([signal, AbortSignal.timeout(SEARCH_MS)]),
      });
      return ok('retriever', `${retriever.name}: ${plural(passages.length, 'passage')} for a question`);
    } finally {
      await retriever.close();
    }
  } catch (error) {
    if (!(error instanceof VfError) || signal.aborted) throw error;
    return missing('retriever', error.message, retrieverRemedy(url, dataset));
  }
}

/** The bundled data sets are answered from bundled corpora; Natural Questions and similar published sets are answered from the Wikipedia of 2018. */
function retrieverRemedy(url: string, dataset: unknown): string {
  const port = URL.parse(url)?.port || '8000';
  const name = typeof dataset === 'string' ? dataset : 'nq-mini';
  if (name === 'nq-mini' || name === 'fact-world') return ownCommand('vf-serve', ['retrieve', '--corpus', name, '--port', port]);
  if (/[./]/.test(name))
    return `serve the passages that answer ${name}: ${ownCommand('vf-serve', ['retrieve', '--corpus', 'PASSAGES.jsonl', '--port', port])}`;
  const files = 'hf download PeterJinGo/wiki-18-corpus wiki-18.jsonl.gz --repo-type dataset --local-dir .';
  const [index, serve] = [
    ownCommand('vf-index', ['-', '-o', 'wiki-18.index']),
    ownCommand('vf-serve', ['retrieve', '--corpus', 'wiki-18.index', '--port', port]),
  ];
  return `${files} && gunzip -c wiki-18.jsonl.gz | ${index} && ${serve}`;
}

/** A bundled corpus rarely holds the answers to the questions of another data set. */
async function corpusFindings({ id, args }: TrainingConfig['environment']): Promise<Finding[]> {
  const corpus = await factOf((await factsIfLoaded(id)).standInCorpus, args);
  if (corpus === null) return [];
  const { dataset } = args;
  const url = 'http://127.0.0.1:8000/retrieve';
  const text = `none is set, so the questions of ${String(dataset)} are answered from the small corpus ${corpus}; serve its own passages and set environment.args.retriever_url = "${url}"`;
  return [warning('retriever', text, retrieverRemedy(url, dataset))];
}

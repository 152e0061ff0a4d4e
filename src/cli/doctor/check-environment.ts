/** Does the environment of the run load, with its rows and its passages, and does its retrieval server answer. */
import { VfError } from '../../core/errors.ts';
import { loadEnvironment } from '../../registry/load-environment.ts';
import { openRetriever } from '../../registry/open-retriever.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { countText } from '../number-text.ts';
import { type Finding, missing, ok } from './finding.ts';

export interface EnvironmentCheck {
  readonly findings: readonly Finding[];
  /** Tokens of the longest rollout, where the environment says so. */
  readonly contextTokens: number | null;
}

export interface EnvironmentCheckOptions {
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

const SEARCH_MS = 30_000;

export async function checkEnvironment({ environment }: TrainingConfig, { variables, signal }: EnvironmentCheckOptions): Promise<EnvironmentCheck> {
  const { id, args } = environment;
  let contextTokens: number | null = null;
  const findings: Finding[] = [];
  try {
    const loaded = await loadEnvironment(id, args, { env: variables, signal });
    contextTokens = Number.isFinite(loaded.limits.contextTokens) ? loaded.limits.contextTokens : null;
    findings.push(ok('environment', `${id}: ${countText(loaded.train.length)} rows to train on`));
    await loaded.close();
  } catch (error) {
    if (!(error instanceof VfError) || signal.aborted) throw error;
    findings.push(missing('environment', error.message, 'mend [environment] in the configuration; vf-eval with the same id and arguments tries it'));
  }
  const url = args['retriever_url'] ?? args['retrieverUrl'];
  if (typeof url === 'string') findings.push(await retrieverFinding(url, signal));
  return { findings, contextTokens };
}

async function retrieverFinding(url: string, signal: AbortSignal): Promise<Finding> {
  try {
    const retriever = await openRetriever({ retrieverUrl: url, env: {} });
    try {
      const [passages = []] = await retriever.search(['capital of France'], {
        topk: 3,
        signal: AbortSignal.any([signal, AbortSignal.timeout(SEARCH_MS)]),
      });
      return ok('retriever', `${retriever.name}: ${passages.length} passages for a question`);
    } finally {
      await retriever.close();
    }
  } catch (error) {
    if (!(error instanceof VfError) || signal.aborted) throw error;
    const port = URL.parse(url)?.port || '8000';
    return missing('retriever', error.message, `vf-serve retrieve --port ${port}, or the retrieval server of your corpus`);
  }
}

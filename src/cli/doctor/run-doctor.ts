/** `vf-doctor`: prints everything that a training run lacks, each with the command that corrects it, or its plan of GPU memory. */
import { ConfigError } from '../../core/errors.ts';
import { assumedCards, memoryTable } from '../../doctor/check-gpus.ts';
import { checkRun } from '../../doctor/check-run.ts';
import { type DoctorTarget, readTarget } from '../../doctor/doctor-target.ts';
import type { Finding } from '../../sessions/finding.ts';
import { readGpuCards } from '../../launch/gpu-cards.ts';
import { paintFor } from '../../reports/text/paint.ts';
import { loadEnvironmentFile } from '../../sessions/environment/environment-file.ts';
import { urlCredentials } from '../../transport/credentials.ts';
import { withTransport } from '../../transport/transport-settings.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { namingFlags } from '../train/key-flags.ts';
import { isWell, renderFinding, renderVerdict } from './render-findings.ts';
import { jsonLine, printable } from '../../reports/text/terminal-text.ts';

interface DoctorOptions {
  readonly preset?: string;
  readonly launch?: boolean;
  readonly python?: string;
  readonly vllmPython?: string;
  readonly apiBaseUrl?: readonly string[];
  readonly apiKeyVar?: string;
  readonly json?: boolean;
  readonly memory?: boolean;
  readonly gpus?: string;
  /** Length in tokens. */
  readonly context?: number;
  /** US dollars for one GPU and hour. */
  readonly gpuPrice?: number;
}

export async function runDoctor(config: string | null, options: DoctorOptions, context: CommandContext): Promise<number> {
  const { preset = null, launch = false, python = null, vllmPython = null, apiBaseUrl = [], apiKeyVar = null, memory = false } = options;
  const { json = false, gpus, context: tokens, gpuPrice } = options;
  for (const url of apiBaseUrl) for (const secret of urlCredentials(url)) context.secrets.add(secret);
  loadEnvironmentFile('.env', process.env);
  const wanted = { config, preset, launches: launch, python, vllmPython, baseUrls: apiBaseUrl, keyVariable: apiKeyVar };
  const target = await namingFlags(readTarget(wanted, process.env));
  for (const secret of target.secrets) context.secrets.add(secret);
  if (memory) {
    process.stdout.write(printable(await memoryPlan(target, { gpus, tokens, gpuPrice }, context.signal)));
    return EXIT.done;
  }
  if (gpus !== undefined || tokens !== undefined || gpuPrice !== undefined)
    throw new ConfigError('--gpus, --context and --gpu-price belong to --memory; add it or leave them out');
  // A check tells how things are; it does not wait for a rate limit.
  return withTransport({ maxWaitMs: 0 }, () => printFindings(target, { json }, context));
}

async function printFindings(target: DoctorTarget, { json }: { readonly json: boolean }, context: CommandContext): Promise<number> {
  const paint = paintFor(process.stdout, { plain: false });
  const columns = process.stdout.columns ?? 100;
  const findings: Finding[] = [];
  for await (const found of checkRun(target, { variables: process.env, signal: context.signal })) {
    const finding = redacted(found, context);
    findings.push(finding);
    if (!json) process.stdout.write(printable(`${renderFinding(finding, columns, paint)}\n`));
  }
  const ok = isWell(findings);
  if (json) process.stdout.write(jsonLine({ ok, findings }, 2));
  else process.stdout.write(printable(`\n${renderVerdict(findings, paint)}\n`));
  return ok ? EXIT.done : EXIT.failed;
}

/** As in Search-R1: a generation may start at 4,096 tokens and add 500. */
const SEARCH_R1_TOKENS = 4596;

async function memoryPlan(
  { config }: DoctorTarget,
  {
    gpus,
    tokens = SEARCH_R1_TOKENS,
    gpuPrice = null,
  }: { readonly gpus: string | undefined; readonly tokens: number | undefined; readonly gpuPrice: number | null | undefined },
  signal: AbortSignal,
): Promise<string> {
  if (config === null) throw new ConfigError('--memory needs a training configuration: vf-doctor run.toml --memory, or --preset NAME');
  const cards = gpus === undefined ? await readGpuCards({ env: process.env, signal }) : assumedCards(gpus);
  // Visibility concerns the GPUs of this machine.
  return memoryTable(config, { cards, contextTokens: tokens, variables: gpus === undefined ? process.env : {}, gpuPrice });
}

function redacted(finding: Finding, { redact }: CommandContext): Finding {
  return { ...finding, text: redact(finding.text), ...(finding.remedy === undefined ? {} : { remedy: redact(finding.remedy) }) };
}

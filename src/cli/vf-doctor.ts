/** The `vf-doctor` command: checks what a training run needs and shows the command that fixes each problem. Changes nothing. */
import { Command } from 'commander';
import { ConfigError } from '../core/errors.ts';
import { packageVersion } from '../data/package-root.ts';
import { readGpuCards } from '../launch/gpu-cards.ts';
import { urlCredentials } from '../transport/credentials.ts';
import { type CommandContext, EXIT, runCommand } from './command-line.ts';
import { checkRun } from '../doctor/check-run.ts';
import { assumedCards, memoryTable } from '../doctor/check-gpus.ts';
import { type DoctorTarget, readTarget } from '../doctor/doctor-target.ts';
import type { Finding } from '../doctor/finding.ts';
import { renderFinding, renderVerdict } from './doctor/render-findings.ts';
import { loadEnvironmentFile } from '../sessions/environment/environment-file.ts';
import { paintFor } from '../reports/text/paint.ts';
import { parseProgram } from './parse-program.ts';

const HELP = `
Examples:
  vf-doctor                              Node, Python, torch, memory, disk, GPU
  vf-doctor run.toml                     everything that this training run needs
  vf-doctor --python .venv/bin/python    a Python other than python3
  vf-doctor -b http://127.0.0.1:8000/v1  also a running policy server
  vf-doctor run.toml --json              for scripts
  vf-doctor run.toml --memory            only the plan of GPU memory
  vf-doctor run.toml --memory --gpus 80,80   the same for two GPUs of 80 GiB
  vf-doctor visual-rag --preset ddai-r1-mini --launch   a preset of vf-train

What it checks:
  embedded: this package's engine, its build and threads; samples one token
  node, python, torch, transformers, safetensors, numpy: installed, version
  device: what torch would train on, and whether it has bfloat16
  model, tokenizer, weights: a folder that loads, safetensors only
  environment, retriever: rows and passages load, the retrieval server answers
  role: the models of the environment's roles, and that their servers answer
  server, tokens, log-probs, window: it returns token ids and log-probs
  adapters, limits: LoRA adapters of this rank load while the server runs
  wasi, bubblewrap: sandboxes for the programs that a model writes
  lancedb: stores the vectors of dense and hybrid retrieval
  vllm, port: what a server started with the run ([policy.launch]) needs
  gpu memory: what worker and vLLM need, compared with the GPUs
  memory, disk: what is free, compared with what the run needs

A server for a run with [lora].rank = 16:
  VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve MODEL --enable-lora \\
      --max-lora-rank 16 --max-loras 2 --max-cpu-loras 4 \\
      --gpu-memory-utilization SHARE --generation-config vllm
vf-doctor run.toml prints this command with the SHARE that leaves the worker its
part, while that server is missing.

It installs nothing, writes nothing and leaves the server as it is. API keys
are read from the environment, then from ./.env, and never shown.

Exit codes:
  0  nothing is missing (there may be warnings)
  1  something is missing
  2  a flag, a file or the configuration is wrong`;

interface Flags {
  readonly preset?: string;
  readonly launch?: true;
  readonly python?: string;
  readonly vllmPython?: string;
  readonly baseUrl?: readonly string[];
  readonly apiKeyVar?: string;
  readonly json?: boolean;
  readonly memory?: boolean;
  readonly gpus?: string;
  readonly context?: string;
}

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  const program = new Command('vf-doctor')
    .description('Checks what a training run needs and shows the command that fixes each problem.')
    .argument('[config]', 'a training configuration (.toml), or an environment with --preset')
    .option('--preset <name>', 'ready-made settings, as those of vf-train (vf-train --list-presets)')
    .option('--launch', "with a configuration or a preset: the run starts vLLM, instead of the configuration's server")
    .option('--python <path>', "the worker's Python (default: the configuration's, else python3)")
    .option('--vllm-python <path>', 'the Python with vLLM, for a server started with the run (default: --python)')
    .option(
      '-b, --base-url <url>',
      "a running policy server, up to and including /v1, instead of the configuration's; repeat for each replica",
      collected,
    )
    .option('-k, --api-key-var <name>', 'environment variable that holds its API key')
    .option('--memory', 'print only how the run would divide the memory of the GPUs; loads nothing')
    .option('--gpus <sizes>', 'with --memory: GPUs of these sizes in GiB instead of those here, such as 80 or 80,80')
    .option('--context <tokens>', 'with --memory: tokens of the longest rollout (default: 4596, as Search-R1 has by default)')
    .option('--json', 'one JSON object on stdout')
    .version(packageVersion(), '-V, --version')
    .addHelpText('after', HELP);
  // Unlike other commands, it also runs without arguments.
  const code = parseProgram(program, argv.length === 0 ? ['--'] : argv);
  if (code !== null) return code;
  const {
    preset = null,
    launch: launches = false,
    python = null,
    vllmPython = null,
    baseUrl = [],
    apiKeyVar = null,
    json = false,
    memory = false,
    gpus,
    context: tokens,
  } = program.opts<Flags>();
  const [config = null] = program.args;
  for (const url of baseUrl) for (const secret of urlCredentials(url)) context.secrets.add(secret);
  loadEnvironmentFile('.env', process.env);
  const target = await readTarget({ config, preset, launches, python, vllmPython, baseUrls: baseUrl, keyVariable: apiKeyVar }, process.env);
  for (const secret of target.secrets) context.secrets.add(secret);

  if (memory) {
    if (json) throw new ConfigError('--memory prints a table and has no --json; leave one of the two out');
    process.stdout.write(await memoryPlan(target, { gpus, tokens }, context.signal));
    return EXIT.done;
  }
  if (gpus !== undefined || tokens !== undefined) throw new ConfigError('--gpus and --context belong to --memory; add it or leave them out');
  const paint = paintFor(process.stdout, { plain: false });
  const columns = process.stdout.columns ?? 100;
  const findings: Finding[] = [];
  for await (const found of checkRun(target, { variables: process.env, signal: context.signal })) {
    const finding = redacted(found, context);
    findings.push(finding);
    if (!json) process.stdout.write(`${renderFinding(finding, columns, paint)}\n`);
  }
  const isWell = findings.every(({ state }) => state !== 'missing');
  if (json) process.stdout.write(`${JSON.stringify({ ok: isWell, findings }, null, 2)}\n`);
  else process.stdout.write(`\n${renderVerdict(findings, paint)}\n`);
  return isWell ? EXIT.done : EXIT.failed;
}

/** As in Search-R1: a generation may start at 4,096 tokens and add 500. */
const SEARCH_R1_TOKENS = 4596;

async function memoryPlan(
  { config }: DoctorTarget,
  { gpus, tokens }: { readonly gpus: string | undefined; readonly tokens: string | undefined },
  signal: AbortSignal,
): Promise<string> {
  if (config === null) throw new ConfigError('--memory needs a training configuration: vf-doctor run.toml --memory, or --preset NAME');
  const contextTokens = tokens === undefined ? SEARCH_R1_TOKENS : Number(tokens);
  if (!Number.isSafeInteger(contextTokens) || contextTokens < 1) throw new ConfigError(`--context must be a whole number of tokens, got ${tokens}`);
  const cards = gpus === undefined ? await readGpuCards({ env: process.env, signal }) : assumedCards(gpus);
  // Visibility concerns the GPUs that are here.
  return memoryTable(config, { cards, contextTokens, variables: gpus === undefined ? process.env : {} });
}

function collected(url: string, before: readonly string[] = []): readonly string[] {
  return [...before, url];
}

function redacted(finding: Finding, { redact }: CommandContext): Finding {
  return { ...finding, text: redact(finding.text), ...(finding.remedy === undefined ? {} : { remedy: redact(finding.remedy) }) };
}

await runCommand('vf-doctor', main);

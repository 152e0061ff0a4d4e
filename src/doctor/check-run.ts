/** Checks everything that a run needs, in the order in which the run would need it. */
import { createServer } from 'node:net';
import { VfError } from '../core/errors.ts';
import { readGpuCards } from '../launch/gpu-cards.ts';
import { vllmCommand } from '../launch/vllm-flags.ts';
import { checkEngine } from './check-engine.ts';
import { checkEnvironment, type EnvironmentCheck } from './check-environment.ts';
import { checkExecutors } from './check-executors.ts';
import { checkGpus, shareBeside } from './check-gpus.ts';
import { checkLance } from './check-lance.ts';
import { checkDisk, checkMemory, checkNode, checkNvidia } from './check-machine.ts';
import { checkModel, initialAdapterFinding, type ModelCheck } from './check-model.ts';
import { checkProxies } from './check-proxies.ts';
import { checkServerPython, checkWorkerPython } from './check-python.ts';
import { checkServers } from './check-server.ts';
import { checkTinker } from './check-tinker.ts';
import type { DoctorTarget } from './doctor-target.ts';
import { estimateDisk } from './estimate-disk.ts';
import { type Finding, missing, ok, skipped } from '../sessions/finding.ts';
import { ASSUMED_TOKENS } from '../launch/gpu-plan.ts';

export interface CheckRunOptions {
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

export async function* checkRun(target: DoctorTarget, { variables, signal }: CheckRunOptions): AsyncGenerator<Finding, void> {
  const { config } = target;
  yield checkNode(process.versions.node);
  const { kind = 'torch', device = 'auto', devices = null, dtype = 'auto', threads = null } = config?.backend ?? {};
  const sampler = config?.policy.embedded ?? null;
  const usesEngine = kind === 'embedded' || sampler !== null;
  yield await checkEngine({
    model: usesEngine ? config!.model.path : null,
    threads: sampler?.threads ?? threads,
    isNeeded: usesEngine,
    signal,
  });
  const cards = await readGpuCards({ env: variables, signal });
  if (kind === 'tinker') yield await checkTinker(config!, { variables, signal });
  if (kind !== 'torch') yield skipped('python', `not needed: ${kind === 'embedded' ? 'the embedded engine' : 'a service'} trains`);
  else {
    const wanted = { devices: devices ?? [device], dtype };
    const findings = await checkWorkerPython(target.python, wanted, { env: variables, signal, hasGpu: (cards ?? []).length > 0 });
    yield* target.needsTorch ? findings : findings.map(optional);
  }
  yield checkNvidia(cards);
  yield* await checkExecutors(config, signal);
  yield await checkLance(config);
  yield* checkProxies(variables);

  let model: ModelCheck = { findings: [], bytes: null, shape: null, window: null };
  let environment: EnvironmentCheck = { findings: [], contextTokens: null, played: null };
  if (config === null) {
    yield skipped('run', 'name a training configuration to check model, environment and server: vf-doctor run.toml');
  } else {
    model = checkModel(config.model.path, variables);
    yield* model.findings;
    const adapter = await initialAdapterFinding(config, variables);
    if (adapter !== null) yield adapter;
    environment = await checkEnvironment(config, { variables, signal });
    yield* environment.findings;
    yield* checkGpus(config, { cards, contextTokens: environment.contextTokens, variables });
  }
  const { contextTokens, played } = environment;
  const gpuShare = config === null ? null : shareBeside(config, { cards, contextTokens, variables });
  yield* (await checkServers(target.baseUrls, { target, contextTokens, played, modelWindow: model.window, gpuShare, signal })).findings;
  if (target.serverPython !== null) yield* await launchFindings(target, target.serverPython, { variables, signal }, (cards ?? []).length > 0);

  yield checkMemory(model.bytes, target.serverPython === null && (sampler === null || kind === 'embedded') ? 1 : 2);
  const estimate = config === null || model.shape === null ? null : estimateDisk(config, model.shape, contextTokens ?? ASSUMED_TOKENS);
  yield await checkDisk(target.outputDir, estimate);
}

function optional(finding: Finding): Finding {
  return finding.state === 'missing' ? skipped(finding.name, `${finding.text} (only training with PyTorch needs it)`) : finding;
}

async function launchFindings(
  { config, loraRank, maxStaleness, temperature }: DoctorTarget,
  python: string,
  { variables, signal }: CheckRunOptions,
  hasGpu: boolean,
): Promise<Finding[]> {
  const vllm = await checkServerPython(python, { env: variables, signal, hasGpu });
  if (config === null) return [vllm];
  const { args = [], env = {} } = config.policy.launch ?? {};
  const needs = {
    modelPath: config.model.path,
    servedName: 'policy',
    loraRank,
    maxStaleness,
    temperature,
    maxModelLen: null,
    gpuShare: null,
    sleeps: false,
    port: 1,
    apiKey: '',
    args,
    env,
  };
  try {
    vllmCommand(needs, { isCpuBuild: false, isLocalModel: true, cores: 1, baseEnv: {} });
  } catch (error) {
    if (!(error instanceof VfError)) throw error;
    return [vllm, missing('flags', error.message, 'fix [policy.launch] in the configuration')];
  }
  return [vllm, await portFinding()];
}

async function portFinding(): Promise<Finding> {
  const server = createServer();
  const problem = await new Promise<Error | null>((resolve) => {
    server.once('error', resolve);
    server.listen(0, '127.0.0.1', () => resolve(null));
  });
  if (problem !== null)
    return missing('port', `cannot listen on 127.0.0.1: ${problem.message}`, 'check that the loopback interface is up: ip link show lo');
  await new Promise((resolve) => server.close(resolve));
  return ok('port', 'the server will use a free port on 127.0.0.1');
}

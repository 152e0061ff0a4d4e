/** The protocols of recipes/base write and read what the environments of the package write and read. */
import { CORRECTIVE_MESSAGE, cutResponse, makePrefix, observation, parseAction } from 'vf-search/environments/search-r1';
import { extractBoxed, extractQuery, loadEnvironment, reasoningPrompt } from 'vf-search/environments/search-o1';
import { Random } from 'vf-search';
import { describe, expect, it } from 'vitest';
import { python } from '../python.ts';

const FOUND = `[document("Kinzer", "export", "rice"), document("Kinzer", "mayor", "Purorka")]`;
const PASSAGES = [{ contents: 'Kinzer\nThe main export of Kinzer is rice.' }, { contents: 'Kinzer\nThe mayor of Kinzer is Purorka.' }];

describe('recipes/base/search_r1.py', () => {
  it('writes the prompt, the corrective message and the observation of the environment', () => {
    const texts = python(`
from recipes.base.search_r1 import SearchR1
from recipes.base.world import document
protocol = SearchR1()
print(json.dumps({"prompt": protocol.prompt_head + protocol.prompt_tail("Who is the mayor of Kinzer?"),
  "corrective": protocol.corrective_message, "found": protocol.observation(${FOUND}), "empty": protocol.observation([])}))`);
    expect(texts).toEqual({
      prompt: makePrefix('Who is the mayor of Kinzer?'),
      corrective: CORRECTIVE_MESSAGE,
      found: observation(PASSAGES),
      empty: observation([]),
    });
  });

  it('cuts and reads a turn as the environment does', () => {
    const turns = [
      '<think> a</think><search> b</search> c',
      '<answer> x</answer><search> y</search>',
      '<answer> x </answer> rest',
      '<search> open',
      '<search> a</answer>',
      '',
    ];
    const ours = turns.map((turn) => {
      const { action, content } = parseAction(cutResponse(turn));
      return [cutResponse(turn), action, content];
    });
    expect(turnsBy('search_r1', 'SearchR1', turns)).toEqual(ours);
  });

  it('gives the episodes and drills that nano-base learned from', () => {
    const digest = python(`
import hashlib, random
from recipes.base.habits import GOOD_ONLY, Teacher
from recipes.base.retriever import Retriever
from recipes.base.search_r1 import SearchR1
from recipes.base.world import EVALUATION_SEED, World
world, protocol = World(1000, avoid=World(EVALUATION_SEED)), SearchR1()
teacher = Teacher(random.Random(11), protocol, fresh=0.1)
teacher.enter(world, Retriever(world.documents))
episodes = [teacher.episode(mix) for mix in (GOOD_ONLY, protocol.habits) for _ in range(300)]
episodes += [teacher.reading_drill(), teacher.asking_drill()]
print(json.dumps(hashlib.sha256(json.dumps(episodes).encode()).hexdigest()))`);
    expect(digest).toBe('4f6d1faca674d03a508f4728188936294eb1e89d449da796eeb264608bd725ee');
  });
});

describe('recipes/base/search_o1.py', () => {
  it('writes the whole prompt of the environment', () => {
    const prompt = python(`
from recipes.base.search_o1 import SearchO1
protocol = SearchO1()
print(json.dumps(protocol.prompt_head + protocol.prompt_tail("Who is the mayor of Kinzer?")))`);
    expect(prompt).toBe(reasoningPrompt('Who is the mayor of Kinzer?'));
  });

  it('inserts what the environment inserts for good, vague, empty and foreign queries', async () => {
    const queries = [
      'mayor of Kinzer',
      'Which good is the main export of Kinzer?',
      'river',
      'the mayor',
      'of the',
      'the towns',
      'Kinzer, Kinzer! emblem_of',
      'quantum chromodynamics',
    ];
    const theirs = python(
      `
from recipes.base.retriever import Retriever
from recipes.base.search_o1 import SearchO1
from recipes.base.world import EVALUATION_SEED, World
protocol, retriever = SearchO1(), Retriever(World(EVALUATION_SEED).documents)
print(json.dumps([protocol.observation(protocol.select(query, retriever.search(query, 10))) for query in given]))`,
      queries,
    );
    const environment = await loadEnvironment({ dataset: 'fact-world' });
    const signal = AbortSignal.timeout(20_000);
    const ours: (string | null)[] = [];
    for (const query of queries) {
      const episode = await environment.start(environment.eval.at(0), { random: Random.fromSeed(0), signal });
      const context = { finish: 'stop', stopReason: null, toolCalls: [], signal } as const;
      const { observation: inserted } = await episode.step(`I should search.\n\n<|begin_search_query|> ${query}<|end_search_query|>`, context);
      ours.push(inserted !== null && 'text' in inserted ? inserted.text : null);
    }
    await environment.close();
    expect(theirs).toEqual(ours);
    expect(new Set(ours).size).toBeGreaterThan(4);
  });

  it('cuts and reads a turn as the environment does', async () => {
    const turns = [
      'a\n\n<|begin_search_query|> b<|end_search_query|>',
      '<|begin_search_query|> a <|begin_search_query|> b <|end_search_query|>',
      '<|begin_search_query|> open',
      'never opened<|end_search_query|>',
      '<|begin_search_query|> \n<|end_search_query|>\\boxed{ x}',
      '<|begin_search_query|> \n<|end_search_query|>',
      'So it is.\n\n\\boxed{ rice}',
      '\\boxed{a}\n\\boxed{ b } and more',
      '\\boxed{ open',
      '\\boxed{two\nlines}',
      '',
    ];
    const environment = await loadEnvironment({ dataset: 'fact-world' });
    const signal = AbortSignal.timeout(20_000);
    const episode = await environment.start(environment.eval.at(0), { random: Random.fromSeed(0), signal });
    const ours = turns.map((turn) => {
      const kept = turn.slice(0, episode.keep(turn));
      const [query, answer] = [extractQuery(kept), extractBoxed(kept)];
      return [kept, ...(query !== null ? ['search', query] : answer !== '' ? ['answer', answer.trim()] : [null, ''])];
    });
    await environment.close();
    expect(turnsBy('search_o1', 'SearchO1', turns)).toEqual(ours);
  });
});

/** [kept text, action, content] of every turn. */
function turnsBy(module: string, protocol: string, turns: readonly string[]): unknown {
  const program = `
from recipes.base.${module} import ${protocol}
protocol = ${protocol}()
print(json.dumps([[protocol.keep(t), *protocol.parse_action(protocol.keep(t))] for t in given]))`;
  return python(program, turns);
}

/** The protocols of scripts/nano write and read what the environments of the package write and read. */
import { CORRECTIVE_MESSAGE, cutResponse, makePrefix, observation, parseAction } from 'vf-search/environments/search-r1';
import { describe, expect, it } from 'vitest';
import { python } from './python.ts';

const FOUND = `[document("Kinzer", "export", "rice"), document("Kinzer", "mayor", "Purorka")]`;
const PASSAGES = [{ contents: 'Kinzer\nThe main export of Kinzer is rice.' }, { contents: 'Kinzer\nThe mayor of Kinzer is Purorka.' }];

describe('scripts/nano/search_r1.py', () => {
  it('writes the prompt, the corrective message and the observation of the environment', () => {
    const texts = python(`
from search_r1 import SearchR1
from world import document
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
from habits import GOOD_ONLY, Teacher
from retriever import Retriever
from search_r1 import SearchR1
from world import EVALUATION_SEED, World
world, protocol = World(1000, avoid=World(EVALUATION_SEED)), SearchR1()
teacher = Teacher(random.Random(11), protocol, fresh=0.1)
teacher.enter(world, Retriever(world.documents))
episodes = [teacher.episode(mix) for mix in (GOOD_ONLY, protocol.habits) for _ in range(300)]
episodes += [teacher.reading_drill(), teacher.asking_drill()]
print(json.dumps(hashlib.sha256(json.dumps(episodes).encode()).hexdigest()))`);
    expect(digest).toBe('4f6d1faca674d03a508f4728188936294eb1e89d449da796eeb264608bd725ee');
  });
});

/** [kept text, action, content] of every turn. */
function turnsBy(module: string, protocol: string, turns: readonly string[]): unknown {
  const program = `
from ${module} import ${protocol}
protocol = ${protocol}()
print(json.dumps([[protocol.keep(t), *protocol.parse_action(protocol.keep(t))] for t in given]))`;
  return python(program, turns);
}

import { describe, expect, it } from 'vitest';
import { choiceArgument, flagArgument, integerArgument, numberArgument, readArguments, textArgument } from '../../src/core/environment-arguments.ts';
import { ConfigError } from '../../src/core/errors.ts';

const KINDS = { name: textArgument, topk: integerArgument(1), rate: numberArgument, strict: flagArgument, mode: choiceArgument('a', 'b') };
const read = (args: Record<string, unknown>) => readArguments('my-env', KINDS, args, { top_k: 'topk' });

describe('readArguments', () => {
  it('reads snake_case, camelCase and aliases alike, and leaves out what is null', () => {
    expect(read({ topK: 3, rate: 0.5, strict: false, mode: 'b', name: null })).toEqual({ topk: 3, rate: 0.5, strict: false, mode: 'b' });
  });

  it.each([
    [{ what: 1 }, 'my-env has no argument "what". Its arguments are name, topk, rate, strict, mode, top_k.'],
    [{ topK1: 1 }, 'my-env has no argument "topK1" (did you mean top_k?). Its arguments are name'],
    [{ ratte: 1 }, 'my-env has no argument "ratte" (did you mean rate?). Its arguments are name'],
    [{ constructor: 1 }, 'my-env has no argument "constructor"'],
    [{ topk: 0 }, 'topk must be an integer of at least 1, got 0'],
    [{ name: '' }, 'name must be a non-empty string, got ""'],
    [{ rate: Infinity }, 'rate must be a finite number'],
    [{ strict: 1 }, 'strict must be true or false, got 1'],
    [{ mode: 'c' }, 'mode must be "a" or "b", got "c"'],
    [{ topk: 1, top_k: 2 }, 'topk has two values, 1 and 2. Set it only once.'],
  ])('refuses %j', (args, message) => {
    expect(() => read(args)).toThrow(ConfigError);
    expect(() => read(args)).toThrow(message);
  });
});

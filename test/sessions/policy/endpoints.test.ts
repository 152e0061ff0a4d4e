import { describe, expect, it } from 'vitest';
import { readEndpoints } from '../../../src/sessions/policy/endpoints.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

const table = (price: string) => `[[endpoint]]\nendpoint_id = "a"\nmodel = "m"\nurl = "http://127.0.0.1:1/v1"\nprice = ${price}\n`;

describe('readEndpoints', () => {
  it.each([
    ['{ input = 0.5, cached = 0.1, output = 1.5 }', { input: 0.5, cached: 0.1, output: 1.5 }],
    ['{ input = 2, output = 8 }', { input: 2, cached: 2, output: 8 }],
    ['{ input = 0, output = 0 }', { input: 0, cached: 0, output: 0 }],
  ])('reads the price %s', async (price, expected) => {
    using folder = new TemporaryFolder();
    const { endpoints } = await readEndpoints(folder.write('endpoints.toml', table(price)));
    expect(endpoints[0]!.price).toEqual(expected);
  });

  it.each([
    ['0.5', /price in \[\[endpoint\]\] 1 of .* must be a table such as \{ input = 0\.5/],
    ['{ input = 0.5 }', /output in the price .* at least 0, got nothing/],
    ['{ input = -1, output = 1 }', /input in the price .* at least 0, got -1/],
    ['{ input = inf, output = 1 }', /input in the price .* got Infinity/],
    ['{ input = "1", output = 1 }', /input in the price .* got a string/],
    ['{ input = 1, output = 1, outputs = 2 }', /Unknown key "outputs" in price/],
  ])('refuses the price %s in one line', async (price, message) => {
    using folder = new TemporaryFolder();
    await expect(readEndpoints(folder.write('endpoints.toml', table(price)))).rejects.toThrow(message);
  });
});

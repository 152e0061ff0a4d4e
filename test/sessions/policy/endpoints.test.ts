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

  it('reads the price of training at a service, which a table need not have', async () => {
    using folder = new TemporaryFolder();
    const text = `${table('{ input = 0.195, output = 0.6, train = 0.44 }')}${table('{ input = 1, output = 1 }')}`;
    const { endpoints } = await readEndpoints(folder.write('endpoints.toml', text));
    expect(endpoints.map(({ trainPrice }) => trainPrice)).toEqual([0.44, undefined]);
    expect(endpoints[0]!.price).toEqual({ input: 0.195, cached: 0.195, output: 0.6 });
  });

  it.each([
    ['{ input = 1, output = 1, train = -1 }', /train in the price .* at least 0, got -1/],
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

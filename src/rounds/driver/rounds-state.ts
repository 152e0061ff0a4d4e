/** The finished steps of rounds, recorded after each of them. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { packageVersion } from '../../data/package-root.ts';
import { replaceFile } from '../../files/json-lines.ts';
import { readRegularFile } from '../../files/regular-file.ts';
import { parseWire } from '../../schemas/results.ts';
import { RoundsStateSchema, type WireDoneStep, type WireRoundsState } from '../../schemas/rounds-state.ts';
import type { RoundsConfig } from './rounds-config.ts';

export class RoundsState {
  readonly #path: string;
  #state: WireRoundsState;

  private constructor(path: string, state: WireRoundsState) {
    this.#path = path;
    this.#state = state;
  }

  /**
   * Throws ConfigError if the folder has the state of other rounds. `firstRun`: the folder of a training that the first step began; null for none. Until it exists,
   * the configuration may change; later only with `allowChanges`.
   */
  static async open(
    { output, digest, rounds, path: config }: RoundsConfig,
    { firstRun, allowChanges }: { readonly firstRun: string | null; readonly allowChanges: boolean },
  ): Promise<RoundsState> {
    const path = join(output, 'state.json');
    if (!existsSync(path)) {
      const empty = {
        schema_version: 1,
        config_sha256: digest,
        package_version: packageVersion(),
        rounds,
        running: { key: null, pid: null },
        steps: [],
      } as const;
      return new RoundsState(path, { ...empty, steps: [] });
    }
    const parsed = parseWire(RoundsStateSchema, await readRegularFile(path));
    if ('problem' in parsed)
      throw new ConfigError(`${path} is not the state of rounds: ${parsed.problem}. Restore the file, or name another output.`);
    const { config_sha256: before, steps } = parsed.value;
    const isOther = before !== digest && !allowChanges;
    if (isOther && steps.length > 0)
      throw new ConfigError(
        `${config} has changed since ${output} was begun; restore it, add --allow-changes to follow it in the steps to come, or name another output`,
      );
    if (isOther && firstRun !== null)
      throw new ConfigError(
        `${config} has changed since the training in ${firstRun} was begun; restore it, delete that folder, or name another output (only "rounds" may change)`,
      );
    return new RoundsState(path, { ...parsed.value, config_sha256: digest, rounds });
  }

  get steps(): readonly WireDoneStep[] {
    return this.#state.steps;
  }

  /** The command that an earlier process began and may have left running. */
  get running(): WireRoundsState['running'] {
    return this.#state.running;
  }

  find(key: string): WireDoneStep | null {
    return this.#state.steps.find((step) => step.key === key) ?? null;
  }

  async begin(running: Required<WireRoundsState['running']>): Promise<void> {
    await this.#save({ ...this.#state, running });
  }

  async finish(step: WireDoneStep): Promise<void> {
    await this.#save({ ...this.#state, running: { key: null, pid: null }, steps: [...this.#state.steps, step] });
  }

  async #save(state: WireRoundsState): Promise<void> {
    await replaceFile(this.#path, (write) => write(Buffer.from(`${JSON.stringify(state, null, 2)}\n`, 'utf8')));
    this.#state = state;
  }
}

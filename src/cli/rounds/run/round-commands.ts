/** The package's commands, as `vf-rounds run` uses them: their parsers in this process, their work in processes of their own. */
import { Command } from 'commander';
import { ConfigError } from '../../../core/errors.ts';
import type { RoundCommands } from '../../../rounds/driver/round-commands.ts';
import { parseProgram } from '../../parse-program.ts';
import { vfTrain } from '../../commands/vf-train.ts';
import { asksFor, parseWords } from '../../options/parse-words.ts';
import { trainArguments } from '../../train/train-arguments.ts';
import { addCurateCommands } from '../curate-commands.ts';
import { addDistillCommands } from '../distill-commands.ts';
import { reportText } from '../report-command.ts';
import { checkStageModel, type RoleOptions } from '../stage-model.ts';
import { runOwn } from './own-process.ts';

export const ROUND_COMMANDS: RoundCommands = {
  trainingRequest: (words) => {
    const parsed = asksFor(vfTrain, words) === null ? parseWords(vfTrain, words) : null;
    const request = parsed === null || parsed.options.helpConfig === true || parsed.options.listPresets === true ? null : trainArguments(parsed);
    if (request?.action !== 'train' || request.resume !== null)
      throw new ConfigError('its flags have one with which vf-train starts no training, such as -R, --dry-run or --help; leave it out');
    return request;
  },
  stageOptions: (stage, words) => {
    const program = new Command('vf-rounds');
    for (const add of [addCurateCommands, addDistillCommands]) add(program, () => {});
    parseProgram(program, [stage, ...words]);
    const { role, config } = program.commands.find((command) => command.name() === stage)!.opts<RoleOptions>();
    return { ...(role !== undefined && { role }), ...(config !== undefined && { config }) };
  },
  checkStageModel,
  run: runOwn,
  report: async (folder) => void process.stdout.write(await reportText([folder], {})),
};

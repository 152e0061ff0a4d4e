/** Declares `vf-serve`, which serves parts of the package over HTTP, and environments over the wire of verifiers too. */
import { defineCommands } from '../options/define-command.ts';
import { environmentCommand } from '../serve/environment-command.ts';
import { executeCommand } from '../serve/execute-command.ts';
import { gatewayCommand } from '../serve/gateway-command.ts';
import { policyCommand } from '../serve/policy-command.ts';
import { retrieveCommand } from '../serve/retrieve-command.ts';
import { tinkerCommand } from '../serve/tinker-command.ts';
import { verifiersCommand } from '../serve/verifiers-command.ts';

export const vfServe = defineCommands({
  name: 'vf-serve',
  summary: 'Serves parts of vf-search over HTTP.',
  commands: [environmentCommand, executeCommand, gatewayCommand, policyCommand, retrieveCommand, tinkerCommand, verifiersCommand],
});

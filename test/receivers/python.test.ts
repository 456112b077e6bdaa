import { exerciseReceiver } from "./exercise.ts";
import { PYTHON } from "./languages.ts";

exerciseReceiver(PYTHON);

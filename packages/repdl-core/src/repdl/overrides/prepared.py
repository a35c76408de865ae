"""For `multiprocessing.set_forkserver_preload`: importing this module prepares the server, and no process that it forks
imports or looks for kernels again."""

from repdl.overrides.switch import prepare
from repdl.settings.garbage import keep_modules

prepare()
keep_modules()

"""What processes that tests start do first (conftest.py): they end without looking for garbage.

Among the objects of torch that takes a quarter of the time of a short program.
"""

import atexit
import gc

atexit.register(gc.freeze)
del __file__  # it is none of the program, whose files a receipt lists

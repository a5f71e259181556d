"""Properties that every registered engine must have; the toy engine is registered here and tested like the others."""

from perseid.runtime.registry import engines, register
from tests.contract.toy import TOY

if TOY.name not in engines():
    register(TOY)
